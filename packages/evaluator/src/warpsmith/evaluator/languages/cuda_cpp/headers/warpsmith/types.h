// Numbers of half precision, scalar types, devices, sizes and checks: what torch's C++ API has below tensors.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>
#include <warpsmith/values.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <optional>
#include <string_view>
#include <tuple>
#include <type_traits>

// torch's headers bring these as well. They take as long to parse as all the rest, so a source is compiled without them
// first, and with them if that fails.
#if defined(WARPSMITH_ALL_HEADERS)
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <numeric>
#include <ostream>
#include <set>
#include <sstream>
#include <unordered_map>
#include <unordered_set>
#endif

#if defined(__CUDACC__)
#define WARPSMITH_BOTH __host__ __device__
#else
#define WARPSMITH_BOTH
#endif

#define C10_HOST_DEVICE WARPSMITH_BOTH
#if defined(__CUDACC__)
#define C10_HOST __host__
#define C10_DEVICE __device__
#define C10_LAUNCH_BOUNDS_0 __launch_bounds__(256, 4)
#define C10_LAUNCH_BOUNDS_1(threads) __launch_bounds__(threads)
#define C10_LAUNCH_BOUNDS_2(threads, blocks) __launch_bounds__(threads, blocks)
#else
#define C10_HOST
#define C10_DEVICE
#endif
#define C10_RESTRICT __restrict__
#define C10_UNUSED [[maybe_unused]]
#define C10_ALWAYS_INLINE inline __attribute__((always_inline))
#define C10_NOINLINE __attribute__((noinline))
#define C10_LIKELY(truth) (__builtin_expect(static_cast<bool>(truth), 1))
#define C10_UNLIKELY(truth) (__builtin_expect(static_cast<bool>(truth), 0))
#define C10_EXPORT
#define C10_API
#define TORCH_API
#define AT_HOST_DEVICE WARPSMITH_BOTH

namespace c10 {

// Half precision -------------------------------------------------------------------------------------------------------

struct alignas(2) Half {
  unsigned short x;

  struct from_bits_t {};
  WARPSMITH_BOTH static constexpr from_bits_t from_bits() { return from_bits_t(); }

  Half() = default;
  WARPSMITH_BOTH constexpr Half(unsigned short bits, from_bits_t) : x(bits) {}
  WARPSMITH_BOTH Half(float value) : x(__half_as_ushort(__float2half_rn(value))) {}
  WARPSMITH_BOTH Half(const __half& value) : x(__half_as_ushort(value)) {}
  WARPSMITH_BOTH operator float() const { return __half2float(__ushort_as_half(x)); }
  WARPSMITH_BOTH operator __half() const { return __ushort_as_half(x); }
};

struct alignas(2) BFloat16 {
  unsigned short x;

  struct from_bits_t {};
  WARPSMITH_BOTH static constexpr from_bits_t from_bits() { return from_bits_t(); }

  BFloat16() = default;
  WARPSMITH_BOTH constexpr BFloat16(unsigned short bits, from_bits_t) : x(bits) {}
  WARPSMITH_BOTH BFloat16(float value) : x(__bfloat16_as_ushort(__float2bfloat16_rn(value))) {}
  WARPSMITH_BOTH BFloat16(const __nv_bfloat16& value) : x(__bfloat16_as_ushort(value)) {}
  WARPSMITH_BOTH operator float() const { return __bfloat162float(__ushort_as_bfloat16(x)); }
  WARPSMITH_BOTH explicit operator __nv_bfloat16() const { return __ushort_as_bfloat16(x); }
};

// Loads through the read-only cache, which CUDA has for its own types.
#if defined(__CUDACC__)
__device__ inline Half __ldg(const Half* place) { return Half(::__ldg(reinterpret_cast<const __half*>(place))); }
__device__ inline BFloat16 __ldg(const BFloat16* place) {
  return BFloat16(::__ldg(reinterpret_cast<const __nv_bfloat16*>(place)));
}
#endif

// As in torch, an operation with a float or double has the other's type, one with an integer stays of half precision.
#define WARPSMITH_NARROW_WITH(Narrow, Other, Result, op)                                       \
  WARPSMITH_BOTH inline Result operator op(Narrow a, Other b) {                                \
    return static_cast<Result>(static_cast<Result>(a) op static_cast<Result>(b));              \
  }                                                                                            \
  WARPSMITH_BOTH inline Result operator op(Other a, Narrow b) {                                \
    return static_cast<Result>(static_cast<Result>(a) op static_cast<Result>(b));              \
  }
#define WARPSMITH_NARROW_WITH_INTEGER(Narrow, Other, op)                                       \
  WARPSMITH_BOTH inline Narrow operator op(Narrow a, Other b) {                                \
    return Narrow(static_cast<float>(a) op static_cast<float>(b));                             \
  }                                                                                            \
  WARPSMITH_BOTH inline Narrow operator op(Other a, Narrow b) {                                \
    return Narrow(static_cast<float>(a) op static_cast<float>(b));                             \
  }
#define WARPSMITH_NARROW_OPERATOR(Narrow, op)                                                  \
  WARPSMITH_BOTH inline Narrow operator op(Narrow a, Narrow b) {                               \
    return Narrow(static_cast<float>(a) op static_cast<float>(b));                             \
  }                                                                                            \
  WARPSMITH_BOTH inline Narrow& operator op##=(Narrow & a, Narrow b) { return a = a op b; }    \
  WARPSMITH_BOTH inline float& operator op##=(float& a, Narrow b) {                            \
    return a = a op static_cast<float>(b);                                                     \
  }                                                                                            \
  WARPSMITH_NARROW_WITH(Narrow, float, float, op)                                              \
  WARPSMITH_NARROW_WITH(Narrow, double, double, op)                                            \
  WARPSMITH_NARROW_WITH_INTEGER(Narrow, int, op)                                               \
  WARPSMITH_NARROW_WITH_INTEGER(Narrow, int64_t, op)
#define WARPSMITH_NARROW_OPERATORS(Narrow)                                                     \
  WARPSMITH_NARROW_OPERATOR(Narrow, +)                                                         \
  WARPSMITH_NARROW_OPERATOR(Narrow, -)                                                         \
  WARPSMITH_NARROW_OPERATOR(Narrow, *)                                                         \
  WARPSMITH_NARROW_OPERATOR(Narrow, /)                                                         \
  WARPSMITH_BOTH inline Narrow operator-(Narrow a) { return Narrow(-static_cast<float>(a)); }

WARPSMITH_NARROW_OPERATORS(Half)
WARPSMITH_NARROW_OPERATORS(BFloat16)

#undef WARPSMITH_NARROW_WITH
#undef WARPSMITH_NARROW_WITH_INTEGER
#undef WARPSMITH_NARROW_OPERATOR
#undef WARPSMITH_NARROW_OPERATORS

// Scalar types ---------------------------------------------------------------------------------------------------------

// The numbers are torch's, which a source can see.
#define WARPSMITH_SCALAR_TYPES(_)                                                                                \
  _(uint8_t, Byte, 0) _(int8_t, Char, 1) _(int16_t, Short, 2) _(int, Int, 3) _(int64_t, Long, 4) _(Half, Half, 5) \
  _(float, Float, 6) _(double, Double, 7) _(bool, Bool, 11) _(BFloat16, BFloat16, 15)

enum class ScalarType : int8_t {
#define WARPSMITH_NAME(type, name, number) name = number,
  WARPSMITH_SCALAR_TYPES(WARPSMITH_NAME)
#undef WARPSMITH_NAME
      Undefined = 45,
};

#define WARPSMITH_CONSTANT(type, name, number) constexpr ScalarType k##name = ScalarType::name;
WARPSMITH_SCALAR_TYPES(WARPSMITH_CONSTANT)
#undef WARPSMITH_CONSTANT
constexpr ScalarType kUInt8 = kByte, kInt8 = kChar, kInt16 = kShort, kInt32 = kInt, kInt64 = kLong, kFloat16 = kHalf,
                     kFloat32 = kFloat, kFloat64 = kDouble;

inline const char* toString(ScalarType type) {
  switch (type) {
#define WARPSMITH_CASE(type, name, number) \
  case ScalarType::name:                   \
    return #name;
    WARPSMITH_SCALAR_TYPES(WARPSMITH_CASE)
#undef WARPSMITH_CASE
    default:
      return "Undefined";
  }
}

inline int64_t elementSize(ScalarType type) {
  switch (type) {
#define WARPSMITH_CASE(type, name, number) \
  case ScalarType::name:                   \
    return sizeof(type);
    WARPSMITH_SCALAR_TYPES(WARPSMITH_CASE)
#undef WARPSMITH_CASE
    default:
      return 0;
  }
}

inline bool isFloatingType(ScalarType type) {
  return type == kHalf || type == kFloat || type == kDouble || type == kBFloat16;
}
inline bool isIntegralType(ScalarType type, bool with_bool = false) {
  return type == kBool ? with_bool : !isFloatingType(type) && type != ScalarType::Undefined;
}

template <typename T>
struct CppTypeToScalarType;
template <ScalarType>
struct ScalarTypeToCPPType;
#define WARPSMITH_PAIR(cpp, name, number)                    \
  template <>                                                \
  struct CppTypeToScalarType<cpp> {                          \
    static constexpr ScalarType value = ScalarType::name;    \
  };                                                         \
  template <>                                                \
  struct ScalarTypeToCPPType<ScalarType::name> {             \
    using type = cpp;                                        \
  };
WARPSMITH_SCALAR_TYPES(WARPSMITH_PAIR)
#undef WARPSMITH_PAIR
template <>
struct CppTypeToScalarType<long long> {
  static constexpr ScalarType value = ScalarType::Long;
};
template <>
struct CppTypeToScalarType<__half> {
  static constexpr ScalarType value = ScalarType::Half;
};
template <>
struct CppTypeToScalarType<__nv_bfloat16> {
  static constexpr ScalarType value = ScalarType::BFloat16;
};
template <ScalarType N>
using ScalarTypeToCPPTypeT = typename ScalarTypeToCPPType<N>::type;

// Errors and checks ----------------------------------------------------------------------------------------------------

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
  const char* what_without_backtrace() const { return what(); }
};
class IndexError : public Error {
 public:
  using Error::Error;
};
class ValueError : public Error {
 public:
  using Error::Error;
};
class NotImplementedError : public Error {
 public:
  using Error::Error;
};

// Sizes ----------------------------------------------------------------------------------------------------------------

/// A view of numbers that somebody else keeps.
template <typename T>
class ArrayRef {
 public:
  using value_type = T;
  using const_iterator = const T*;

  constexpr ArrayRef() = default;
  constexpr ArrayRef(const T& one) : data_(&one), size_(1) {}
  constexpr ArrayRef(const T* data, size_t size) : data_(data), size_(size) {}
  ArrayRef(const std::vector<T>& items) : data_(items.data()), size_(items.size()) {}
  template <size_t N>
  constexpr ArrayRef(const std::array<T, N>& items) : data_(items.data()), size_(N) {}
  template <size_t N>
  constexpr ArrayRef(const T (&items)[N]) : data_(items), size_(N) {}
  constexpr ArrayRef(const std::initializer_list<T>& items) : data_(items.begin()), size_(items.size()) {}

  constexpr const T* begin() const { return data_; }
  constexpr const T* end() const { return data_ + size_; }
  constexpr const T* data() const { return data_; }
  constexpr size_t size() const { return size_; }
  constexpr bool empty() const { return size_ == 0; }
  constexpr const T& operator[](size_t index) const { return data_[index]; }
  const T& at(size_t index) const {
    if (index >= size_) throw Error("index " + std::to_string(index) + " is beyond the end of an ArrayRef");
    return data_[index];
  }
  constexpr const T& front() const { return data_[0]; }
  constexpr const T& back() const { return data_[size_ - 1]; }
  ArrayRef slice(size_t start, size_t length) const { return ArrayRef(data_ + start, length); }
  std::vector<T> vec() const { return std::vector<T>(begin(), end()); }
  bool equals(ArrayRef other) const { return size_ == other.size_ && std::equal(begin(), end(), other.begin()); }

 private:
  const T* data_ = nullptr;
  size_t size_ = 0;
};

template <typename T>
bool operator==(ArrayRef<T> a, ArrayRef<T> b) {
  return a.equals(b);
}
template <typename T>
bool operator!=(ArrayRef<T> a, ArrayRef<T> b) {
  return !a.equals(b);
}
template <typename T>
bool operator==(const std::vector<T>& a, ArrayRef<T> b) {
  return ArrayRef<T>(a).equals(b);
}
template <typename T>
bool operator==(ArrayRef<T> a, const std::vector<T>& b) {
  return a.equals(ArrayRef<T>(b));
}
using IntArrayRef = ArrayRef<int64_t>;
template <typename T>
using SmallVector = std::vector<T>;

/// Sizes that Python said, kept by this object.
class Sizes {
 public:
  Sizes() = default;
  explicit Sizes(std::vector<int64_t> items) : items_(std::move(items)) {}
  operator IntArrayRef() const& { return IntArrayRef(items_); }
  operator std::vector<int64_t>() const { return items_; }
  int64_t operator[](size_t index) const { return items_[index]; }
  int64_t at(size_t index) const { return items_.at(index); }
  size_t size() const { return items_.size(); }
  bool empty() const { return items_.empty(); }
  int64_t front() const { return items_.front(); }
  int64_t back() const { return items_.back(); }
  const int64_t* data() const { return items_.data(); }
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }
  const std::vector<int64_t>& vec() const { return items_; }
  bool equals(const Sizes& other) const { return items_ == other.items_; }
  std::vector<int64_t> slice(size_t start, size_t length) const {
    return std::vector<int64_t>(items_.begin() + start, items_.begin() + start + length);
  }
  friend bool operator==(const Sizes& a, const Sizes& b) { return a.items_ == b.items_; }
  friend bool operator!=(const Sizes& a, const Sizes& b) { return a.items_ != b.items_; }

 private:
  std::vector<int64_t> items_;
};

// Devices --------------------------------------------------------------------------------------------------------------

using DeviceIndex = int8_t;
enum class DeviceType : int8_t { CPU = 0, CUDA = 1, Meta = 14 };
constexpr DeviceType kCPU = DeviceType::CPU, kCUDA = DeviceType::CUDA, kMeta = DeviceType::Meta;

class Device {
 public:
  Device(DeviceType type = kCUDA, DeviceIndex index = -1) : type_(type), index_(index) {}
  Device(const std::string& name) : type_(name.compare(0, 4, "cuda") == 0 ? kCUDA : kCPU) {
    const size_t colon = name.find(':');
    if (colon != std::string::npos) index_ = static_cast<DeviceIndex>(std::stoi(name.substr(colon + 1)));
  }
  Device(const char* name) : Device(std::string(name)) {}
  DeviceType type() const { return type_; }
  DeviceIndex index() const { return index_; }
  bool has_index() const { return index_ >= 0; }
  bool is_cuda() const { return type_ == kCUDA; }
  bool is_cpu() const { return type_ == kCPU; }
  std::string str() const {
    std::string text = type_ == kCUDA ? "cuda" : type_ == kCPU ? "cpu" : "meta";
    return index_ < 0 ? text : text + ":" + std::to_string(index_);
  }
  friend bool operator==(const Device& a, const Device& b) { return a.type_ == b.type_ && a.index_ == b.index_; }
  friend bool operator!=(const Device& a, const Device& b) { return !(a == b); }

 private:
  DeviceType type_;
  DeviceIndex index_ = -1;
};

enum class Layout : int8_t { Strided, Sparse };
constexpr Layout kStrided = Layout::Strided, kSparse = Layout::Sparse;
enum class MemoryFormat : int8_t { Contiguous, Preserve, ChannelsLast, ChannelsLast3d };

using std::make_optional;
using std::nullopt;
using std::nullopt_t;
using std::optional;
using string_view = std::string_view;

/// A number from C++: an integer, a real number or a truth value.
class Scalar {
 public:
  Scalar() : value_(warpsmith::of_integer(0)) {}
  template <typename T, std::enable_if_t<std::is_arithmetic_v<T>, int> = 0>
  Scalar(T number)
      : value_(std::is_same_v<T, bool>         ? warpsmith::of_boolean(static_cast<bool>(number))
               : std::is_floating_point_v<T> ? warpsmith::of_real(static_cast<double>(number))
                                               : warpsmith::of_integer(static_cast<int64_t>(number))) {}
  Scalar(Half number) : Scalar(static_cast<float>(number)) {}
  Scalar(BFloat16 number) : Scalar(static_cast<float>(number)) {}
  explicit Scalar(const warpsmith::Value& value) : value_(value) {}

  template <typename T>
  T to() const {
    return value_.kind == warpsmith::kReal ? static_cast<T>(value_.real) : static_cast<T>(value_.integer);
  }
  float toFloat() const { return to<float>(); }
  double toDouble() const { return to<double>(); }
  int toInt() const { return to<int>(); }
  int64_t toLong() const { return to<int64_t>(); }
  bool toBool() const { return to<bool>(); }
  bool isFloatingPoint() const { return value_.kind == warpsmith::kReal; }
  bool isIntegral(bool with_bool = false) const {
    return value_.kind == warpsmith::kInteger || (with_bool && value_.kind == warpsmith::kBoolean);
  }
  bool isBoolean() const { return value_.kind == warpsmith::kBoolean; }
  const warpsmith::Value& value() const { return value_; }

 private:
  warpsmith::Value value_;
};

// Text -----------------------------------------------------------------------------------------------------------------

inline std::string text_of(const char* text) { return text; }
inline std::string text_of(const std::string& text) { return text; }
inline std::string text_of(std::string_view text) { return std::string(text); }
inline std::string text_of(char letter) { return std::string(1, letter); }
inline std::string text_of(bool truth) { return truth ? "1" : "0"; }
template <typename T, std::enable_if_t<std::is_integral_v<T>, int> = 0>
std::string text_of(T number) {
  return std::to_string(number);
}
inline std::string text_of(double number) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", number);
  return text;
}
inline std::string text_of(float number) { return text_of(static_cast<double>(number)); }
inline std::string text_of(Half number) { return text_of(static_cast<float>(number)); }
inline std::string text_of(BFloat16 number) { return text_of(static_cast<float>(number)); }
inline std::string text_of(ScalarType type) { return toString(type); }
inline std::string text_of(const Device& device) { return device.str(); }
inline std::string text_of(DeviceType type) { return Device(type).str(); }
template <typename T>
std::string text_of(ArrayRef<T> items) {
  std::string text = "[";
  for (size_t i = 0; i < items.size(); ++i) text += (i ? ", " : "") + text_of(items[i]);
  return text + "]";
}
template <typename T>
std::string text_of(const std::vector<T>& items) {
  return text_of(ArrayRef<T>(items));
}
inline std::string text_of(const Sizes& sizes) { return text_of(IntArrayRef(sizes)); }

#if defined(WARPSMITH_ALL_HEADERS)
template <typename T>
auto streamed(std::ostream& out, const T& part, int) -> decltype(text_of(part), void()) {
  out << text_of(part);
}
template <typename T>
void streamed(std::ostream& out, const T& part, long) {
  out << part;
}
template <typename... Parts>
std::string str(const Parts&... parts) {
  std::ostringstream text;
  (streamed(text, parts, 0), ...);
  return text.str();
}
inline std::ostream& operator<<(std::ostream& out, Half part) { return out << text_of(part); }
inline std::ostream& operator<<(std::ostream& out, BFloat16 part) { return out << text_of(part); }
inline std::ostream& operator<<(std::ostream& out, ScalarType part) { return out << text_of(part); }
inline std::ostream& operator<<(std::ostream& out, const Device& part) { return out << text_of(part); }
inline std::ostream& operator<<(std::ostream& out, const Sizes& part) { return out << text_of(part); }
template <typename T>
std::ostream& operator<<(std::ostream& out, ArrayRef<T> part) {
  return out << text_of(part);
}
#else
template <typename... Parts>
std::string str(const Parts&... parts) {
  return (std::string() + ... + text_of(parts));
}
#endif

}  // namespace c10

namespace std {

template <>
class numeric_limits<c10::Half> {
 public:
  static constexpr bool is_specialized = true, is_signed = true, is_integer = false, is_exact = false;
  static constexpr bool has_infinity = true, has_quiet_NaN = true, is_iec559 = true;
  static constexpr int digits = 11, radix = 2;
  WARPSMITH_BOTH static constexpr c10::Half bits(unsigned short of) { return {of, c10::Half::from_bits_t()}; }
  WARPSMITH_BOTH static constexpr c10::Half lowest() { return bits(0xFBFF); }
  WARPSMITH_BOTH static constexpr c10::Half max() { return bits(0x7BFF); }
  WARPSMITH_BOTH static constexpr c10::Half min() { return bits(0x0400); }
  WARPSMITH_BOTH static constexpr c10::Half epsilon() { return bits(0x1400); }
  WARPSMITH_BOTH static constexpr c10::Half infinity() { return bits(0x7C00); }
  WARPSMITH_BOTH static constexpr c10::Half quiet_NaN() { return bits(0x7E00); }
};

template <>
class numeric_limits<c10::BFloat16> {
 public:
  static constexpr bool is_specialized = true, is_signed = true, is_integer = false, is_exact = false;
  static constexpr bool has_infinity = true, has_quiet_NaN = true, is_iec559 = false;
  static constexpr int digits = 8, radix = 2;
  WARPSMITH_BOTH static constexpr c10::BFloat16 bits(unsigned short of) { return {of, c10::BFloat16::from_bits_t()}; }
  WARPSMITH_BOTH static constexpr c10::BFloat16 lowest() { return bits(0xFF7F); }
  WARPSMITH_BOTH static constexpr c10::BFloat16 max() { return bits(0x7F7F); }
  WARPSMITH_BOTH static constexpr c10::BFloat16 min() { return bits(0x0080); }
  WARPSMITH_BOTH static constexpr c10::BFloat16 epsilon() { return bits(0x3C00); }
  WARPSMITH_BOTH static constexpr c10::BFloat16 infinity() { return bits(0x7F80); }
  WARPSMITH_BOTH static constexpr c10::BFloat16 quiet_NaN() { return bits(0x7FC0); }
};

}  // namespace std

// The file and line come first, so that an author finds the check.
#define TORCH_CHECK(condition, ...)                                                       \
  if (C10_UNLIKELY(!(condition))) {                                                       \
    ::warpsmith::fail(#condition, __FILE__, __LINE__, ::c10::str(__VA_ARGS__));           \
  }
#define TORCH_CHECK_WITH(kind, condition, ...)                                            \
  if (C10_UNLIKELY(!(condition))) {                                                       \
    throw ::c10::kind(::c10::str(__VA_ARGS__));                                           \
  }
#define TORCH_CHECK_INDEX(condition, ...) TORCH_CHECK_WITH(IndexError, condition, ##__VA_ARGS__)
#define TORCH_CHECK_VALUE(condition, ...) TORCH_CHECK_WITH(ValueError, condition, ##__VA_ARGS__)
#define TORCH_CHECK_TYPE TORCH_CHECK
#define TORCH_CHECK_NOT_IMPLEMENTED(condition, ...) TORCH_CHECK_WITH(NotImplementedError, condition, ##__VA_ARGS__)
#define TORCH_INTERNAL_ASSERT TORCH_CHECK
#define TORCH_INTERNAL_ASSERT_DEBUG_ONLY(...)
#define TORCH_CHECK_EQ(a, b) TORCH_CHECK((a) == (b), #a " == " #b)
#define TORCH_CHECK_NE(a, b) TORCH_CHECK((a) != (b), #a " != " #b)
#define TORCH_CHECK_LT(a, b) TORCH_CHECK((a) < (b), #a " < " #b)
#define TORCH_CHECK_LE(a, b) TORCH_CHECK((a) <= (b), #a " <= " #b)
#define TORCH_CHECK_GT(a, b) TORCH_CHECK((a) > (b), #a " > " #b)
#define TORCH_CHECK_GE(a, b) TORCH_CHECK((a) >= (b), #a " >= " #b)
#define AT_ASSERT TORCH_CHECK
#define AT_ASSERTM TORCH_CHECK
#define AT_ERROR(...) throw ::c10::Error(::c10::str(__VA_ARGS__))
#define C10_THROW_ERROR(kind, text) throw ::c10::kind(text)
#define TORCH_WARN(...) ((void)0)
#define TORCH_WARN_ONCE(...) ((void)0)

namespace warpsmith {

[[noreturn]] inline void fail(const char* condition, const char*, int line, const std::string& text) {
  throw c10::Error(text.empty() ? c10::str("Expected ", condition, " (line ", line, ")") : text);
}

}  // namespace warpsmith

namespace at {
using namespace c10;  // NOLINT: at has what c10 has
}
namespace torch {
using namespace c10;  // NOLINT: torch has what at and c10 have
using Dtype = c10::ScalarType;
}  // namespace torch
namespace caffe2 {
using TypeMeta = c10::ScalarType;
}
