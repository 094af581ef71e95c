// PYBIND11_MODULE and m.def: which functions of a module Python calls, and how values become their arguments.
#pragma once

#include <warpsmith/tensor.h>

namespace warpsmith {

/// What a result points at, until the next call into the module.
class Answer {
 public:
  void clear() {
    for (const auto* list : lists_) delete list;
    for (const auto* text : texts_) delete text;
    lists_.clear();
    texts_.clear();
    tensors_.clear();
  }
  const std::vector<Value>& list(std::vector<Value> items) {
    lists_.push_back(new std::vector<Value>(std::move(items)));
    return *lists_.back();
  }
  const std::string& text(std::string made) {
    texts_.push_back(new std::string(std::move(made)));
    return *texts_.back();
  }
  const at::Tensor& tensor(const at::Tensor& held) {
    tensors_.push_back(held);
    return tensors_.back();
  }

 private:
  std::vector<const std::vector<Value>*> lists_;
  std::vector<const std::string*> texts_;
  std::vector<at::Tensor> tensors_;
};

inline Answer answer;

inline const char* name_of(int32_t kind) {
  static const char* const kNames[] = {"None",         "a Tensor", "an int", "a float", "a bool",    "a str",
                                       "a list",       "a tuple",  "a dtype", "a device", "a pointer"};
  return kind >= 0 && kind <= kPointer ? kNames[kind] : "nothing";
}

[[noreturn]] inline void mismatch(const char* wanted, const Value& value) {
  throw TypeMismatch(std::string(wanted) + " was expected, got " + name_of(value.kind));
}

// The owner keeps what an argument refers to.
template <typename T, typename = void>
struct Cast {
  static_assert(sizeof(T) == 0, "a function that Python calls has an argument or a result of a type that the stand-in "
                                "of torch's C++ API does not convert: use Tensor, int64_t, double, bool, std::string, "
                                "and std::vector, std::optional, std::tuple of these");
};

template <>
struct Cast<at::Tensor> {
  using Owner = at::Tensor;
  static Owner from(const Value& value) {
    if (value.kind == kNone) return at::Tensor();
    if (value.kind != kTensor) mismatch("a Tensor", value);
    return at::Tensor(value.integer);
  }
  static Value to(const at::Tensor& tensor) {
    Argument made;
    set(made, answer.tensor(tensor));
    return made.value;
  }
};

template <>
struct Cast<bool> {
  using Owner = bool;
  static Owner from(const Value& value) {
    if (value.kind != kBoolean && value.kind != kInteger) mismatch("a bool", value);
    return value.integer != 0;
  }
  static Value to(bool truth) { return of_boolean(truth); }
};

template <typename T>
struct Cast<T, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>>> {
  using Owner = T;
  static Owner from(const Value& value) {
    if (value.kind != kInteger && value.kind != kBoolean) mismatch("an int", value);
    if (static_cast<int64_t>(static_cast<T>(value.integer)) != value.integer)
      throw TypeMismatch("an int is too large for its C++ type");
    return static_cast<T>(value.integer);
  }
  static Value to(T number) { return of_integer(static_cast<int64_t>(number)); }
};

template <typename T>
struct Cast<T, std::enable_if_t<std::is_floating_point_v<T>>> {
  using Owner = T;
  static Owner from(const Value& value) {
    if (value.kind == kInteger || value.kind == kBoolean) return static_cast<T>(value.integer);
    if (value.kind != kReal) mismatch("a float", value);
    return static_cast<T>(value.real);
  }
  static Value to(T number) { return of_real(number); }
};

template <>
struct Cast<std::string> {
  using Owner = std::string;
  static Owner from(const Value& value) {
    if (value.kind != kText) mismatch("a str", value);
    return std::string(value.text, value.size);
  }
  static Value to(const std::string& text) { return of_text(answer.text(text)); }
};

template <>
struct Cast<c10::Scalar> {
  using Owner = c10::Scalar;
  static Owner from(const Value& value) {
    if (value.kind != kReal && value.kind != kInteger && value.kind != kBoolean) mismatch("a number", value);
    return c10::Scalar(value);
  }
  static Value to(const c10::Scalar& number) { return number.value(); }
};

template <>
struct Cast<c10::ScalarType> {
  using Owner = c10::ScalarType;
  static Owner from(const Value& value) {
    if (value.kind != kDtype) mismatch("a dtype", value);
    return static_cast<c10::ScalarType>(value.integer);
  }
  static Value to(c10::ScalarType type) {
    Argument made;
    set(made, type);
    return made.value;
  }
};

template <typename T>
struct Cast<std::vector<T>> {
  using Owner = std::vector<T>;
  static Owner from(const Value& value) {
    if (value.kind != kList && value.kind != kTuple) mismatch("a list", value);
    Owner made;
    for (int32_t i = 0; i < value.size; ++i) made.push_back(Cast<T>::from(value.items[i]));
    return made;
  }
  static Value to(const std::vector<T>& items) {
    std::vector<Value> made;
    for (size_t i = 0; i < items.size(); ++i) made.push_back(Cast<T>::to(items[i]));
    return of_items(kList, answer.list(std::move(made)));
  }
};

template <typename T>
struct Cast<c10::ArrayRef<T>> {
  using Owner = std::vector<T>;
  static Owner from(const Value& value) { return Cast<std::vector<T>>::from(value); }
  static Value to(c10::ArrayRef<T> items) { return Cast<std::vector<T>>::to(items.vec()); }
};
template <>
struct Cast<c10::Sizes> {
  using Owner = c10::Sizes;
  static Owner from(const Value& value) { return c10::Sizes(Cast<std::vector<int64_t>>::from(value)); }
  static Value to(const c10::Sizes& sizes) { return Cast<std::vector<int64_t>>::to(sizes.vec()); }
};

template <typename T>
struct Cast<std::optional<T>> {
  using Owner = std::optional<typename Cast<T>::Owner>;
  static Owner from(const Value& value) { return value.kind == kNone ? Owner() : Owner(Cast<T>::from(value)); }
  static Value to(const std::optional<T>& item) { return item ? Cast<T>::to(*item) : Value(); }
};

template <typename... T>
struct Cast<std::tuple<T...>> {
  using Owner = std::tuple<T...>;
  static Owner from(const Value& value) { return from(value, std::index_sequence_for<T...>()); }
  static Value to(const std::tuple<T...>& items) {
    return std::apply(
        [](const T&... item) { return of_items(kTuple, answer.list({Cast<T>::to(item)...})); }, items);
  }

 private:
  template <size_t... I>
  static Owner from(const Value& value, std::index_sequence<I...>) {
    if ((value.kind != kTuple && value.kind != kList) || value.size != sizeof...(T)) mismatch("a tuple", value);
    return Owner(Cast<T>::from(value.items[I])...);
  }
};
template <typename A, typename B>
struct Cast<std::pair<A, B>> {
  using Owner = std::pair<A, B>;
  static Value to(const std::pair<A, B>& pair) {
    return of_items(kTuple, answer.list({Cast<A>::to(pair.first), Cast<B>::to(pair.second)}));
  }
};
template <typename T, size_t N>
struct Cast<std::array<T, N>> {
  using Owner = std::array<T, N>;
  static Value to(const std::array<T, N>& items) {
    return Cast<std::vector<T>>::to(std::vector<T>(items.begin(), items.end()));
  }
};

/// Something that is called with values.
class Callable {
 public:
  virtual ~Callable() = default;
  virtual Value operator()(const Value* values) = 0;
};

/// A function that Python calls; it lives as long as the module.
struct Function {
  std::string name;
  std::vector<std::string> names;
  std::vector<Value> defaults;
  size_t count = 0;
  Callable* call = nullptr;
};

inline std::vector<Function>& functions() {
  static std::vector<Function> all;
  return all;
}

template <typename T>
using Bare = std::remove_cv_t<std::remove_reference_t<T>>;

template <typename Called, typename Result, typename... A>
class Erased : public Callable {
 public:
  explicit Erased(Called called) : called_(std::move(called)) {}
  Value operator()(const Value* values) override { return run(values, std::index_sequence_for<A...>()); }

 private:
  template <size_t... I>
  Value run(const Value* values, std::index_sequence<I...>) {
    (void)values;
    std::tuple<typename Cast<Bare<A>>::Owner...> owners{Cast<Bare<A>>::from(values[I])...};
    if constexpr (std::is_void_v<Result>) {
      called_(static_cast<A>(std::get<I>(owners))...);
      return Value();
    } else {
      return Cast<Bare<Result>>::to(called_(static_cast<A>(std::get<I>(owners))...));
    }
  }

  Called called_;
};

template <typename Called, typename Result, typename... A>
Function function(const char* name, Called called, Result (*)(A...)) {
  Function made;
  made.name = name;
  made.count = sizeof...(A);
  made.call = new Erased<Called, Result, A...>(std::move(called));
  return made;
}

/// A value that a module has under a name.
struct Attribute {
  std::string name;
  Argument argument;
};
inline std::vector<Attribute*>& attributes() {
  static std::vector<Attribute*> made;
  return made;
}

template <typename T>
struct CallOf;
template <typename T, typename Result, typename... A>
struct CallOf<Result (T::*)(A...) const> {
  using Like = Result (*)(A...);
};
template <typename T, typename Result, typename... A>
struct CallOf<Result (T::*)(A...)> {
  using Like = Result (*)(A...);
};

}  // namespace warpsmith

namespace pybind11 {

/// The name of an argument, and what it is if it is left out.
class arg {
 public:
  explicit arg(const char* name) : name_(name) {}
  template <typename T>
  arg operator=(const T& value) const {
    arg made = *this;
    warpsmith::Argument kept;
    if constexpr (!std::is_same_v<T, std::nullopt_t> && !std::is_same_v<T, std::nullptr_t>) warpsmith::set(kept, value);
    if (kept.value.kind == warpsmith::kText) kept.value.text = (new std::string(kept.text))->c_str();
    if (kept.value.kind == warpsmith::kList)
      kept.value.items = (new std::vector<warpsmith::Value>(kept.items))->data();
    made.value_ = kept.value;
    return made;
  }
  arg& noconvert(bool = true) { return *this; }
  arg& none(bool = true) { return *this; }
  const std::string& name() const { return name_; }
  const warpsmith::Value& value() const { return value_; }

 private:
  static warpsmith::Value missing() {
    warpsmith::Value made;
    made.kind = warpsmith::kMissing;
    return made;
  }
  std::string name_;
  warpsmith::Value value_ = missing();
};

struct none {
  operator std::nullopt_t() const { return std::nullopt; }
};
template <typename Guard>
struct call_guard {};
class gil_scoped_release {};
class gil_scoped_acquire {};

/// What `m.attr(name)` returns, to be assigned to.
class attribute {
 public:
  explicit attribute(const char* name) : name_(name) {}
  template <typename T>
  attribute& operator=(const T& value) {
    auto* made = new warpsmith::Attribute{name_, {}};
    warpsmith::set(made->argument, value);
    warpsmith::attributes().push_back(made);
    return *this;
  }

 private:
  std::string name_;
};

class module_ {
 public:
  attribute attr(const char* name) { return attribute(name); }
  template <typename Result, typename... A, typename... Extra>
  module_& def(const char* name, Result (*called)(A...), const Extra&... extra) {
    return add(warpsmith::function(name, called, called), extra...);
  }
  template <typename Called, typename... Extra, typename = decltype(&Called::operator())>
  module_& def(const char* name, Called called, const Extra&... extra) {
    using Like = typename warpsmith::CallOf<decltype(&Called::operator())>::Like;
    return add(warpsmith::function(name, std::move(called), Like(nullptr)), extra...);
  }
  std::string& doc() { return doc_; }

 private:
  template <typename... Extra>
  module_& add(warpsmith::Function made, const Extra&... extra) {
    (take(made, extra), ...);
    warpsmith::functions().push_back(std::move(made));
    return *this;
  }
  static void take(warpsmith::Function& made, const arg& extra) {
    made.names.push_back(extra.name());
    made.defaults.push_back(extra.value());
  }
  template <typename Extra>
  static void take(warpsmith::Function&, const Extra&) {}

  std::string doc_;
};
using module = module_;

}  // namespace pybind11

namespace warpsmith {
inline void set(Argument&, const pybind11::none&) {}
}

namespace py = pybind11;

namespace torch {
namespace py = pybind11;
template <typename Called>
Called wrap_pybind_function(Called called) {
  return called;
}
}  // namespace torch

extern "C" void warpsmith_bind(pybind11::module_& module);
#define PYBIND11_MODULE(name, variable) extern "C" void warpsmith_bind(pybind11::module_& variable)
#ifndef TORCH_EXTENSION_NAME
#define TORCH_EXTENSION_NAME extension
#endif
