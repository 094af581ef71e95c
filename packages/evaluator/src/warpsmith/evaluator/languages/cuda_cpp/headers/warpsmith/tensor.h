// Tensors: handles of Python's tensors, with the methods and functions that host code uses to allocate, view and move.
//
// What computes is here as well, so that it compiles; Python then refuses it with the reason, as it does in `forward`.
#pragma once

#include <warpsmith/types.h>

namespace at {

class Tensor;
template <typename T, size_t N>
class TensorAccessor;
template <typename T>
struct RestrictPtrTraits {
  typedef T* __restrict__ PtrType;
};
template <typename T>
struct DefaultPtrTraits {
  typedef T* PtrType;
};
template <typename T, size_t N, template <typename U> class Traits, typename Index>
class GenericPackedTensorAccessor;

using TensorList = c10::ArrayRef<Tensor>;

// Options --------------------------------------------------------------------------------------------------------------

class TensorOptions {
 public:
  TensorOptions() = default;
  TensorOptions(c10::ScalarType type) : type_(type) {}
  TensorOptions(c10::Device device) : device_(device.str()) {}
  TensorOptions(c10::DeviceType device) : TensorOptions(c10::Device(device)) {}
  TensorOptions(c10::Layout) {}
  [[nodiscard]] TensorOptions dtype(c10::ScalarType type) const {
    TensorOptions made = *this;
    made.type_ = type;
    return made;
  }
  template <typename T>
  [[nodiscard]] TensorOptions dtype() const {
    return dtype(c10::CppTypeToScalarType<T>::value);
  }
  [[nodiscard]] TensorOptions device(c10::Device device) const {
    TensorOptions made = *this;
    made.device_ = device.str();
    return made;
  }
  [[nodiscard]] TensorOptions device(c10::DeviceType type, c10::DeviceIndex index = -1) const {
    return device(c10::Device(type, index));
  }
  [[nodiscard]] TensorOptions device_index(c10::DeviceIndex index) const { return device(c10::kCUDA, index); }
  [[nodiscard]] TensorOptions layout(c10::Layout) const { return *this; }
  [[nodiscard]] TensorOptions requires_grad(bool) const { return *this; }
  [[nodiscard]] TensorOptions pinned_memory(bool) const { return *this; }
  [[nodiscard]] TensorOptions memory_format(c10::MemoryFormat) const { return *this; }
  c10::ScalarType dtype() const { return type_ == c10::ScalarType::Undefined ? c10::kFloat : type_; }
  c10::Device device() const { return device_.empty() ? c10::Device(c10::kCPU) : c10::Device(device_); }
  bool has_dtype() const { return type_ != c10::ScalarType::Undefined; }
  bool has_device() const { return !device_.empty(); }

  c10::ScalarType asked_dtype() const { return type_; }
  const std::string& asked_device() const { return device_; }

 private:
  c10::ScalarType type_ = c10::ScalarType::Undefined;
  std::string device_;
};

}  // namespace at

namespace warpsmith {

// Arguments of a call: kept by an object of each, since a value only points at what it means.

struct Argument {
  std::vector<Value> items;
  std::string text;
  Value value;
};

inline void set(Argument& to, const at::Tensor& tensor);
inline void set(Argument& to, bool truth) { to.value = of_boolean(truth); }
inline void set(Argument& to, int number) { to.value = of_integer(number); }
inline void set(Argument& to, unsigned number) { to.value = of_integer(number); }
inline void set(Argument& to, long number) { to.value = of_integer(number); }
inline void set(Argument& to, long long number) { to.value = of_integer(number); }
inline void set(Argument& to, unsigned long number) { to.value = of_integer(static_cast<int64_t>(number)); }
inline void set(Argument& to, double number) { to.value = of_real(number); }
inline void set(Argument& to, float number) { to.value = of_real(number); }
inline void set(Argument& to, const c10::Scalar& number) { to.value = number.value(); }
inline void set(Argument&, std::nullopt_t) {}
inline void set(Argument& to, c10::ScalarType type) {
  to.value.kind = type == c10::ScalarType::Undefined ? kNone : kDtype;
  to.value.integer = static_cast<int64_t>(type);
}
inline void set(Argument& to, const std::string& text) {
  to.text = text;
  to.value = of_text(to.text);
}
inline void set(Argument& to, const char* text) { set(to, std::string(text)); }
inline void set(Argument& to, const c10::Device& device) {
  set(to, device.str());
  to.value.kind = kDevice;
}
inline void set(Argument& to, c10::DeviceType type) { set(to, c10::Device(type)); }
inline void set(Argument& to, c10::MemoryFormat format) {
  to.value = of_integer(static_cast<int64_t>(format));
}
inline void set(Argument& to, c10::IntArrayRef numbers) {
  for (const int64_t number : numbers) to.items.push_back(of_integer(number));
  to.value = of_items(kList, to.items);
}
inline void set(Argument& to, const c10::Sizes& sizes) { set(to, c10::IntArrayRef(sizes)); }
inline void set(Argument& to, const std::vector<int64_t>& numbers) { set(to, c10::IntArrayRef(numbers)); }
inline void set(Argument& to, std::initializer_list<int64_t> numbers) { set(to, c10::IntArrayRef(numbers)); }
inline void set(Argument& to, at::TensorList tensors);
inline void set(Argument& to, const std::vector<at::Tensor>& tensors);
inline void set(Argument& to, const at::TensorOptions& options) {
  Argument type, device;
  set(type, options.asked_dtype());
  to.text = options.asked_device();
  device.value = of_text(to.text);
  device.value.kind = to.text.empty() ? kNone : kDevice;
  to.items = {type.value, device.value};
  to.value = of_items(kTuple, to.items);
}
template <typename T>
void set(Argument& to, const std::optional<T>& optional) {
  if (optional) set(to, *optional);
}

template <typename... Arguments>
Value ask(const char* name, const Arguments&... arguments) {
  constexpr size_t count = sizeof...(Arguments);
  Argument made[count + 1];
  Value values[count + 1];
  size_t at = 0;
  ((set(made[at], arguments), values[at] = made[at].value, ++at), ...);
  return invoke(name, values, static_cast<int32_t>(count));
}

}  // namespace warpsmith

namespace at {
namespace indexing {

// What `tensor.index({...})` takes: places, ranges, new axes, and `...`.
struct EllipsisIndexType {};
constexpr EllipsisIndexType Ellipsis{};
constexpr std::nullopt_t None = std::nullopt;

class Slice {
 public:
  using Place = std::optional<int64_t>;
  Slice(Place start = {}, Place stop = {}, Place step = {}) : start_(start), stop_(stop), step_(step.value_or(1)) {}
  const Place& start() const { return start_; }
  const Place& stop() const { return stop_; }
  int64_t step() const { return step_; }

 private:
  Place start_, stop_;
  int64_t step_;
};

class TensorIndex {
 public:
  enum class Kind { Place, Range, NewAxis, Rest };
  TensorIndex(std::nullopt_t) : kind(Kind::NewAxis) {}
  TensorIndex(EllipsisIndexType) : kind(Kind::Rest) {}
  TensorIndex(const char*) : kind(Kind::Rest) {}
  TensorIndex(Slice range) : kind(Kind::Range), range(range) {}
  template <typename T, std::enable_if_t<std::is_integral_v<T>, int> = 0>
  TensorIndex(T place) : kind(Kind::Place), place(place) {}

  Kind kind;
  int64_t place = 0;
  Slice range;
};

}  // namespace indexing

inline TensorOptions dtype(c10::ScalarType type) { return TensorOptions(type); }
inline TensorOptions device(c10::Device device) { return TensorOptions(device); }
inline TensorOptions requires_grad(bool = true) { return TensorOptions(); }

/// What the old `tensor.type()` returned.
class DeprecatedTypeProperties {
 public:
  DeprecatedTypeProperties(c10::ScalarType type, bool cuda) : type_(type), cuda_(cuda) {}
  operator c10::ScalarType() const { return type_; }
  c10::ScalarType scalarType() const { return type_; }
  bool is_cuda() const { return cuda_; }
  bool is_sparse() const { return false; }
  friend std::string text_of(const DeprecatedTypeProperties& type) {
    return std::string("CUDA") + c10::toString(type.type_) + "Type";
  }

 private:
  c10::ScalarType type_;
  bool cuda_;
};

#define WARPSMITH_METHODS_OF_SIZES(_) \
  _(view) _(reshape) _(expand) _(permute) _(repeat) _(sum) _(mean) _(amax) _(amin) _(squeeze) _(flip) _(new_empty) \
  _(new_zeros) _(new_ones) _(resize_)
#define WARPSMITH_METHODS(_)                                                                                      \
  _(contiguous) _(clone) _(detach) _(t) _(transpose) _(unsqueeze) _(unsqueeze_) _(squeeze) _(select) _(slice)     \
  _(narrow) _(flatten) _(view_as) _(reshape_as) _(expand_as) _(type_as) _(zero_) _(fill_) _(copy_) _(to) _(mT)    \
  _(new_full) _(index_select) _(gather) _(scatter) _(masked_fill) _(index) _(diagonal) _(unfold) _(roll)          \
  _(add) _(add_) _(sub) _(sub_) _(mul) _(mul_) _(div) _(div_) _(pow) _(neg) _(abs) _(exp) _(log) _(sqrt) _(rsqrt) \
  _(sin) _(cos) _(tanh) _(sigmoid) _(relu) _(relu_) _(clamp) _(clamp_min) _(clamp_max) _(matmul) _(mm) _(bmm)     \
  _(addmm) _(dot) _(mv) _(sum) _(mean) _(max) _(min) _(amax) _(amin) _(argmax) _(argmin) _(var) _(std) _(norm)    \
  _(softmax) _(log_softmax) _(cumsum) _(cumprod) _(prod) _(any) _(all) _(eq) _(ne) _(lt) _(gt) _(le) _(ge)        \
  _(movedim) _(swapaxes) _(as_strided) _(set_requires_grad) _(requires_grad_) _(pin_memory) _(round) _(floor)     \
  _(erf) _(square) _(reciprocal) _(sign) _(where) _(tril) _(triu)

class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(int64_t id) : held_(id) {}

  bool defined() const { return static_cast<bool>(held_); }
  void reset() { held_ = warpsmith::Held(); }
  int64_t id() const { return held_.id(); }
  bool is_same(const Tensor& other) const { return id() == other.id(); }
  int64_t use_count() const { return held_.users(); }

  // Form
  c10::Sizes sizes() const { return sizes_of("sizes"); }
  c10::Sizes strides() const { return sizes_of("strides"); }
  int64_t size(int64_t axis) const { return ask("size", axis).integer; }
  int64_t stride(int64_t axis) const { return ask("stride", axis).integer; }
  int64_t dim() const { return ask("dim").integer; }
  int64_t ndimension() const { return dim(); }
  int64_t numel() const { return ask("numel").integer; }
  int64_t storage_offset() const { return ask("storage_offset").integer; }
  int64_t itemsize() const { return c10::elementSize(scalar_type()); }
  int64_t element_size() const { return itemsize(); }
  size_t nbytes() const { return static_cast<size_t>(numel() * itemsize()); }
  c10::ScalarType scalar_type() const { return static_cast<c10::ScalarType>(ask("scalar_type").integer); }
  c10::ScalarType dtype() const { return scalar_type(); }
  DeprecatedTypeProperties type() const { return {scalar_type(), is_cuda()}; }
  c10::Device device() const { return c10::Device(c10::kCUDA, 0); }
  c10::DeviceIndex get_device() const { return 0; }
  c10::Layout layout() const { return c10::kStrided; }
  TensorOptions options() const { return TensorOptions(scalar_type()).device(device()); }
  bool is_cuda() const { return ask("is_cuda").integer != 0; }
  bool is_cpu() const { return !is_cuda(); }
  bool is_sparse() const { return false; }
  bool is_contiguous(c10::MemoryFormat format = c10::MemoryFormat::Contiguous) const {
    return ask("is_contiguous", format).integer != 0;
  }
  bool is_non_overlapping_and_dense() const { return ask("is_dense").integer != 0; }
  bool is_floating_point() const { return c10::isFloatingType(scalar_type()); }
  bool is_complex() const { return false; }
  bool requires_grad() const { return false; }
  c10::MemoryFormat suggest_memory_format() const {
    const c10::MemoryFormat last = c10::MemoryFormat::ChannelsLast;
    return dim() == 4 && !is_contiguous() && is_contiguous(last) ? last : c10::MemoryFormat::Contiguous;
  }

  // Memory
  void* data_ptr() const { return const_cast<void*>(ask("data_ptr").pointer); }
  const void* const_data_ptr() const { return data_ptr(); }
  void* mutable_data_ptr() const { return data_ptr(); }
  template <typename T>
  T* data_ptr() const {
    check_type(c10::CppTypeToScalarType<std::remove_const_t<T>>::value);
    return static_cast<T*>(data_ptr());
  }
  template <typename T>
  T* data() const {
    return data_ptr<T>();
  }
  template <typename T>
  const T* const_data_ptr() const {
    return data_ptr<T>();
  }
  template <typename T>
  T* mutable_data_ptr() const {
    return data_ptr<T>();
  }
  template <typename T, size_t N, template <typename U> class Traits = DefaultPtrTraits>
  GenericPackedTensorAccessor<T, N, Traits, int32_t> packed_accessor32() const;
  template <typename T, size_t N, template <typename U> class Traits = DefaultPtrTraits>
  GenericPackedTensorAccessor<T, N, Traits, int64_t> packed_accessor64() const;
  template <typename T, size_t N, template <typename U> class Traits = DefaultPtrTraits, typename Index = int64_t>
  GenericPackedTensorAccessor<T, N, Traits, Index> generic_packed_accessor() const;
  template <typename T, size_t N>
  TensorAccessor<T, N> accessor() const;

  // Contents, which nobody has where host code is recorded
  template <typename T>
  T item() const {
    return c10::Scalar(ask("item")).to<T>();
  }
  c10::Scalar item() const { return c10::Scalar(ask("item")); }

  // Other tensors
  Tensor cuda() const { return *this; }
  Tensor cpu() const { return made("cpu"); }
  Tensor toType(c10::ScalarType type) const { return made("to", type); }
  Tensor to(const TensorOptions& options, bool = false, bool = false) const {
    return options.asked_dtype() == c10::ScalarType::Undefined ? *this : made("to", options.asked_dtype());
  }
  Tensor to(const c10::Device& device, c10::ScalarType type, bool = false, bool = false) const {
    return made("to", device, type);
  }
  Tensor to(const Tensor& other) const { return made("to", other); }
  Tensor contiguous(c10::MemoryFormat format) const { return made("contiguous_as", format); }
  Tensor to(c10::MemoryFormat format) const { return contiguous(format); }
  Tensor operator[](int64_t index) const { return made("select", int64_t{0}, index); }
  Tensor index(std::initializer_list<indexing::TensorIndex> items) const {
    using Kind = indexing::TensorIndex::Kind;
    Tensor found = *this;
    int64_t axis = 0, left = 0;
    for (const auto& item : items) left += item.kind == Kind::Place || item.kind == Kind::Range;
    for (const auto& item : items) {
      if (item.kind == Kind::NewAxis) {
        found = found.unsqueeze(axis++);
      } else if (item.kind == Kind::Rest) {
        axis = found.dim() - left;
      } else {
        --left;
        found = item.kind == Kind::Place
                    ? found.select(axis, item.place)
                    : found.made("slice", axis++, item.range.start(), item.range.stop(), item.range.step());
      }
    }
    return found;
  }
  std::vector<Tensor> unbind(int64_t axis = 0) const { return all_of(ask("unbind", axis)); }
  std::vector<Tensor> chunk(int64_t count, int64_t axis = 0) const { return all_of(ask("chunk", count, axis)); }
  std::vector<Tensor> split(int64_t size, int64_t axis = 0) const { return all_of(ask("split", size, axis)); }
  Tensor& operator+=(const Tensor& other) { return *this = made("add_", other); }
  Tensor& operator-=(const Tensor& other) { return *this = made("sub_", other); }
  Tensor& operator*=(const Tensor& other) { return *this = made("mul_", other); }
  Tensor& operator/=(const Tensor& other) { return *this = made("div_", other); }
  Tensor& operator+=(const c10::Scalar& other) { return *this = made("add_", other); }
  Tensor& operator-=(const c10::Scalar& other) { return *this = made("sub_", other); }
  Tensor& operator*=(const c10::Scalar& other) { return *this = made("mul_", other); }
  Tensor& operator/=(const c10::Scalar& other) { return *this = made("div_", other); }

#define WARPSMITH_METHOD(name)                                                     \
  template <typename... Arguments>                                                 \
  Tensor name(const Arguments&... arguments) const {                               \
    return made(#name, arguments...);                                              \
  }
  WARPSMITH_METHODS(WARPSMITH_METHOD)
#undef WARPSMITH_METHOD
#define WARPSMITH_METHOD(name)                                                     \
  Tensor name(c10::IntArrayRef sizes) const { return made(#name, sizes); }         \
  template <typename... Arguments>                                                 \
  Tensor name(c10::IntArrayRef sizes, const Arguments&... arguments) const {       \
    return made(#name, sizes, arguments...);                                       \
  }
  WARPSMITH_METHODS_OF_SIZES(WARPSMITH_METHOD)
#undef WARPSMITH_METHOD

  template <typename... Arguments>
  Tensor made(const char* name, const Arguments&... arguments) const {
    return Tensor(ask(name, arguments...).integer);
  }

  static std::vector<Tensor> all_of(const warpsmith::Value& value) {
    std::vector<Tensor> found;
    for (int32_t i = 0; i < value.size; ++i) found.emplace_back(value.items[i].integer);
    return found;
  }

 private:
  template <typename... Arguments>
  warpsmith::Value ask(const char* name, const Arguments&... arguments) const {
    if (!held_) throw c10::Error(std::string(name) + " is called on an undefined tensor");
    return warpsmith::ask(name, *this, arguments...);
  }
  c10::Sizes sizes_of(const char* name) const {
    const warpsmith::Value value = ask(name);
    std::vector<int64_t> numbers;
    for (int32_t i = 0; i < value.size; ++i) numbers.push_back(value.items[i].integer);
    return c10::Sizes(std::move(numbers));
  }
  void check_type(c10::ScalarType wanted) const {
    const c10::ScalarType own = scalar_type();
    if (own != wanted)
      throw c10::Error(c10::str("expected scalar type ", wanted, " but found ", own));
  }

  warpsmith::Held held_;
};

}  // namespace at

namespace warpsmith {

inline void set(Argument& to, const at::Tensor& tensor) {
  to.value.kind = tensor.defined() ? kTensor : kNone;
  to.value.integer = tensor.id();
}
inline void set(Argument& to, at::TensorList tensors) {
  for (const at::Tensor& tensor : tensors) {
    Argument one;
    set(one, tensor);
    to.items.push_back(one.value);
  }
  to.value = of_items(kList, to.items);
}
inline void set(Argument& to, const std::vector<at::Tensor>& tensors) { set(to, at::TensorList(tensors)); }

template <typename... Arguments>
at::Tensor tensor_of(const char* name, const Arguments&... arguments) {
  return at::Tensor(ask(name, arguments...).integer);
}

}  // namespace warpsmith

namespace at {

// Functions ------------------------------------------------------------------------------------------------------------

#define WARPSMITH_FACTORY(name)                                                            \
  inline Tensor name(c10::IntArrayRef sizes, const TensorOptions& options = {}) {          \
    return warpsmith::tensor_of("torch." #name, sizes, options);                           \
  }                                                                                        \
  inline Tensor name(c10::IntArrayRef sizes, const TensorOptions& options, c10::MemoryFormat format) { \
    return warpsmith::tensor_of("torch." #name, sizes, options, format);                   \
  }
#define WARPSMITH_LIKE(name)                                                               \
  inline Tensor name(const Tensor& like, const TensorOptions& options = {}) {              \
    return warpsmith::tensor_of("torch." #name, like, options);                            \
  }                                                                                        \
  inline Tensor name(const Tensor& like, const TensorOptions& options, c10::MemoryFormat) { \
    return warpsmith::tensor_of("torch." #name, like, options);                            \
  }
WARPSMITH_FACTORY(empty)
WARPSMITH_FACTORY(zeros)
WARPSMITH_FACTORY(ones)
WARPSMITH_FACTORY(rand)
WARPSMITH_FACTORY(randn)
WARPSMITH_LIKE(empty_like)
WARPSMITH_LIKE(zeros_like)
WARPSMITH_LIKE(ones_like)
WARPSMITH_LIKE(rand_like)
WARPSMITH_LIKE(randn_like)
#undef WARPSMITH_FACTORY
#undef WARPSMITH_LIKE

inline Tensor full(c10::IntArrayRef sizes, const c10::Scalar& value, const TensorOptions& options = {}) {
  return warpsmith::tensor_of("torch.full", sizes, value, options);
}
inline Tensor full_like(const Tensor& like, const c10::Scalar& value, const TensorOptions& options = {}) {
  return warpsmith::tensor_of("torch.full_like", like, value, options);
}
inline Tensor empty_strided(c10::IntArrayRef sizes, c10::IntArrayRef strides, const TensorOptions& options = {}) {
  return warpsmith::tensor_of("torch.empty_strided", sizes, strides, options);
}
inline Tensor arange(const c10::Scalar& end, const TensorOptions& options = {}) {
  return warpsmith::tensor_of("torch.arange", end, options);
}
inline Tensor arange(const c10::Scalar& start, const c10::Scalar& end, const TensorOptions& options = {}) {
  return warpsmith::tensor_of("torch.arange", start, end, options);
}
inline Tensor scalar_tensor(const c10::Scalar& value, const TensorOptions& options = {}) {
  return warpsmith::tensor_of("torch.scalar_tensor", value, options);
}
template <typename T>
Tensor tensor(c10::ArrayRef<T> values, TensorOptions options = {}) {
  std::vector<warpsmith::Value> items;
  for (const T& value : values) items.push_back(c10::Scalar(value).value());
  if (!options.has_dtype()) options = options.dtype(c10::CppTypeToScalarType<T>::value);
  warpsmith::Argument last;
  warpsmith::set(last, options);
  return Tensor(warpsmith::invoke("torch.tensor", {warpsmith::of_items(warpsmith::kList, items), last.value}).integer);
}
template <typename T>
Tensor tensor(std::initializer_list<T> values, const TensorOptions& options = {}) {
  return tensor(c10::ArrayRef<T>(values), options);
}
template <typename T>
Tensor tensor(const std::vector<T>& values, const TensorOptions& options = {}) {
  return tensor(c10::ArrayRef<T>(values), options);
}
inline Tensor cat(const std::vector<Tensor>& tensors, int64_t axis = 0) {
  return warpsmith::tensor_of("torch.cat", tensors, axis);
}
inline Tensor stack(const std::vector<Tensor>& tensors, int64_t axis = 0) {
  return warpsmith::tensor_of("torch.stack", tensors, axis);
}

#define WARPSMITH_FUNCTIONS(_)                                                                                       \
  _(add) _(sub) _(mul) _(div) _(matmul) _(mm) _(bmm) _(addmm) _(dot) _(mv) _(sum) _(mean) _(amax) _(amin) _(max)     \
  _(min) _(argmax) _(argmin) _(var) _(softmax) _(log_softmax) _(relu) _(sigmoid) _(tanh) _(gelu) _(exp) _(log)       \
  _(sqrt) _(rsqrt) _(abs) _(pow) _(clamp) _(sin) _(cos) _(erf) _(where) _(gather) _(index_select) _(cumsum) _(norm)  \
  _(transpose) _(reshape) _(flatten) _(squeeze) _(unsqueeze) _(permute) _(linear) _(conv1d) _(conv2d) _(conv3d)      \
  _(conv_transpose2d) _(layer_norm) _(batch_norm) _(max_pool2d) _(avg_pool2d) _(adaptive_avg_pool2d) _(dropout)      \
  _(cumprod) _(prod) _(square) _(einsum) _(tril) _(triu) _(logsumexp) _(silu) _(leaky_relu) _(hardtanh)
#define WARPSMITH_FUNCTION(name)                                     \
  template <typename... Arguments>                                   \
  Tensor name(const Arguments&... arguments) {                       \
    return warpsmith::tensor_of("torch." #name, arguments...);       \
  }
WARPSMITH_FUNCTIONS(WARPSMITH_FUNCTION)
#undef WARPSMITH_FUNCTION

#define WARPSMITH_OPERATOR(op, name)                                                                            \
  inline Tensor operator op(const Tensor& a, const Tensor& b) { return warpsmith::tensor_of("torch." #name, a, b); } \
  inline Tensor operator op(const Tensor& a, const c10::Scalar& b) {                                            \
    return warpsmith::tensor_of("torch." #name, a, b);                                                          \
  }                                                                                                             \
  inline Tensor operator op(const c10::Scalar& a, const Tensor& b) {                                            \
    return warpsmith::tensor_of("torch." #name, a, b);                                                          \
  }
WARPSMITH_OPERATOR(+, add)
WARPSMITH_OPERATOR(-, sub)
WARPSMITH_OPERATOR(*, mul)
WARPSMITH_OPERATOR(/, div)
#undef WARPSMITH_OPERATOR
inline Tensor operator-(const Tensor& a) { return warpsmith::tensor_of("torch.neg", a); }

inline std::string text_of(const Tensor& tensor) {
  return c10::str("a ", tensor.scalar_type(), " tensor of sizes ", tensor.sizes());
}

#if defined(WARPSMITH_ALL_HEADERS)
inline std::ostream& operator<<(std::ostream& out, const Tensor& part) { return out << text_of(part); }
inline std::ostream& operator<<(std::ostream& out, const DeprecatedTypeProperties& part) {
  return out << text_of(part);
}
#endif

class NoGradGuard {
 public:
  NoGradGuard() {}
};
class AutoDispatchBelowADInplaceOrView : public NoGradGuard {};

template <typename T>
struct OpMathType {
  using type = T;
};
template <>
struct OpMathType<c10::Half> {
  using type = float;
};
template <>
struct OpMathType<c10::BFloat16> {
  using type = float;
};
template <typename T>
using opmath_type = typename OpMathType<T>::type;
/// What sums of a T are kept in, on a GPU and on the host.
template <typename T, bool on_gpu>
struct AccumulateType {
  using type = std::conditional_t<std::is_same_v<T, float>, std::conditional_t<on_gpu, float, double>,
                                  std::conditional_t<std::is_integral_v<T>, int64_t, opmath_type<T>>>;
};
template <typename T, bool on_gpu>
using acc_type = typename AccumulateType<T, on_gpu>::type;

template <typename T, std::enable_if_t<std::is_integral_v<T>, int> = 0>
WARPSMITH_BOTH constexpr T ceil_div(T a, T b) {
  return (a + b - 1) / b;
}
template <typename T, std::enable_if_t<std::is_integral_v<T>, int> = 0>
WARPSMITH_BOTH constexpr T round_up(T a, T b) {
  return ceil_div(a, b) * b;
}

}  // namespace at

namespace torch {
using namespace at;  // NOLINT: torch has what at has
using NoGradGuard = at::NoGradGuard;
namespace autograd {}
namespace indexing = at::indexing;
namespace nn {
namespace functional {}
}  // namespace nn
}  // namespace torch

#define TORCH_CHECK_TENSOR(x) TORCH_CHECK((x).defined(), #x " must be defined")
