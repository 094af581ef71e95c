// Values that cross between host code in C++ and the process's Python, and the calls in either direction.
//
// Host code runs in a process whose tensors are Python's. A tensor here is a number that Python knows it by; what is
// asked of a tensor is asked of Python, which records it. The layout of `Value` and of `Bridge` is that of
// `host_library.py`.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace warpsmith {

enum Kind : int32_t {
  kMissing = -1,
  kNone = 0,
  kTensor = 1,
  kInteger = 2,
  kReal = 3,
  kBoolean = 4,
  kText = 5,
  kList = 6,
  kTuple = 7,
  kDtype = 8,
  kDevice = 9,
  kPointer = 10,
  kError = 11,
};

struct Value {
  int32_t kind = kNone;
  int32_t size = 0;  ///< items of a list or tuple, bytes of a text; of an error its class: 0 runtime, 1 type, 2 index
  union {
    int64_t integer = 0;
    double real;
    const void* pointer;
    const char* text;
    const Value* items;
  };
};

struct Bridge {
  /// Ask Python; 0 if it answered, and `result` is the answer until the next call.
  int32_t (*call)(const char* name, const Value* args, int32_t count, Value* result);
  void (*release)(int64_t tensor);
};

inline const Bridge* bridge = nullptr;

/// What Python raised; Python raises it again if nothing here catches it.
class PythonError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class TypeMismatch : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A tensor of Python's, which is released when the last copy of this goes. Host code has one thread.
class Held {
 public:
  Held() = default;
  explicit Held(int64_t id) : shared_(new Shared{id, 1}) {}
  Held(const Held& other) : shared_(other.shared_) {
    if (shared_) ++shared_->users;
  }
  Held(Held&& other) noexcept : shared_(std::exchange(other.shared_, nullptr)) {}
  Held& operator=(Held other) noexcept {
    std::swap(shared_, other.shared_);
    return *this;
  }
  ~Held() {
    if (!shared_ || --shared_->users) return;
    if (bridge) bridge->release(shared_->id);
    delete shared_;
  }
  explicit operator bool() const { return shared_ != nullptr; }
  int64_t id() const { return shared_ ? shared_->id : -1; }
  int64_t users() const { return shared_ ? shared_->users : 0; }

 private:
  struct Shared {
    int64_t id;
    int64_t users;
  };
  Shared* shared_ = nullptr;
};

inline Value of_integer(int64_t number) {
  Value made;
  made.kind = kInteger;
  made.integer = number;
  return made;
}

inline Value of_real(double number) {
  Value made;
  made.kind = kReal;
  made.real = number;
  return made;
}

inline Value of_boolean(bool truth) {
  Value made;
  made.kind = kBoolean;
  made.integer = truth;
  return made;
}

inline Value of_pointer(const void* address) {
  Value made;
  made.kind = kPointer;
  made.pointer = address;
  return made;
}

/// The text must live as long as the value.
inline Value of_text(const std::string& text) {
  Value made;
  made.kind = kText;
  made.size = static_cast<int32_t>(text.size());
  made.text = text.c_str();
  return made;
}

inline Value of_items(int32_t kind, const std::vector<Value>& items) {
  Value made;
  made.kind = kind;
  made.size = static_cast<int32_t>(items.size());
  made.items = items.data();
  return made;
}

inline Value invoke(const char* name, const Value* args, int32_t count) {
  if (!bridge)
    throw std::runtime_error(std::string(name) + " is called while no module is loaded: call it in a function");
  Value result;
  if (bridge->call(name, args, count, &result) != 0)
    throw PythonError(result.kind == kText ? std::string(result.text, result.size) : std::string(name) + " failed");
  return result;
}

inline Value invoke(const char* name, std::initializer_list<Value> args) {
  return invoke(name, args.begin(), static_cast<int32_t>(args.size()));
}

}  // namespace warpsmith
