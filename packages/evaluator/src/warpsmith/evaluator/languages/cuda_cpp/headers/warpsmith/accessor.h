// Accessors: a pointer with sizes and strides, passed to kernels by value.
#pragma once

#include <warpsmith/tensor.h>

namespace at {

template <typename T, size_t N, template <typename U> class Traits, typename Index>
class Subscript {
 public:
  typedef typename Traits<T>::PtrType PtrType;
  WARPSMITH_BOTH Subscript(PtrType data, const Index* sizes, const Index* strides)
      : data_(data), sizes_(sizes), strides_(strides) {}
  WARPSMITH_BOTH Subscript<T, N - 1, Traits, Index> operator[](Index i) const {
    return {data_ + i * strides_[0], sizes_ + 1, strides_ + 1};
  }
  WARPSMITH_BOTH Index size(int axis) const { return sizes_[axis]; }
  WARPSMITH_BOTH Index stride(int axis) const { return strides_[axis]; }
  WARPSMITH_BOTH PtrType data() const { return data_; }

 private:
  PtrType data_;
  const Index* sizes_;
  const Index* strides_;
};

template <typename T, template <typename U> class Traits, typename Index>
class Subscript<T, 1, Traits, Index> {
 public:
  typedef typename Traits<T>::PtrType PtrType;
  WARPSMITH_BOTH Subscript(PtrType data, const Index* sizes, const Index* strides)
      : data_(data), sizes_(sizes), strides_(strides) {}
  WARPSMITH_BOTH T& operator[](Index i) const { return data_[i * strides_[0]]; }
  WARPSMITH_BOTH Index size(int axis) const { return sizes_[axis]; }
  WARPSMITH_BOTH Index stride(int axis) const { return strides_[axis]; }
  WARPSMITH_BOTH PtrType data() const { return data_; }

 private:
  PtrType data_;
  const Index* sizes_;
  const Index* strides_;
};

template <typename T, size_t N, template <typename U> class Traits, typename Index>
class GenericPackedTensorAccessor {
 public:
  typedef typename Traits<T>::PtrType PtrType;
  GenericPackedTensorAccessor(T* data, const c10::Sizes& sizes, const c10::Sizes& strides) : data_(data) {
    for (size_t i = 0; i < N; ++i) {
      sizes_[i] = static_cast<Index>(sizes[i]);
      strides_[i] = static_cast<Index>(strides[i]);
    }
  }
  WARPSMITH_BOTH decltype(auto) operator[](Index i) const {
    if constexpr (N == 1) {
      return first(i);
    } else {
      return Subscript<T, N - 1, Traits, Index>(data_ + i * strides_[0], sizes_ + 1, strides_ + 1);
    }
  }
  WARPSMITH_BOTH Index size(int axis) const { return sizes_[axis]; }
  WARPSMITH_BOTH Index stride(int axis) const { return strides_[axis]; }
  WARPSMITH_BOTH PtrType data() const { return data_; }

 private:
  WARPSMITH_BOTH T& first(Index i) const { return data_[i * strides_[0]]; }

  PtrType data_;
  Index sizes_[N];
  Index strides_[N];
};

template <typename T, size_t N, template <typename U> class Traits = DefaultPtrTraits>
using PackedTensorAccessor32 = GenericPackedTensorAccessor<T, N, Traits, int32_t>;
template <typename T, size_t N, template <typename U> class Traits = DefaultPtrTraits>
using PackedTensorAccessor64 = GenericPackedTensorAccessor<T, N, Traits, int64_t>;
template <typename T, size_t N, template <typename U> class Traits = DefaultPtrTraits, typename Index = int64_t>
using PackedTensorAccessor = GenericPackedTensorAccessor<T, N, Traits, Index>;

/// An accessor that host code reads through: there are no contents to read.
template <typename T, size_t N>
class TensorAccessor {
 public:
  explicit TensorAccessor(const Tensor& tensor) : tensor_(tensor) {}
  T& operator[](int64_t) const {
    warpsmith::ask("item", tensor_);
    throw c10::Error("an accessor on the host reads a tensor");
  }
  int64_t size(int64_t axis) const { return tensor_.size(axis); }
  int64_t stride(int64_t axis) const { return tensor_.stride(axis); }

 private:
  Tensor tensor_;
};

template <typename T, size_t N, template <typename U> class Traits, typename Index>
GenericPackedTensorAccessor<T, N, Traits, Index> Tensor::generic_packed_accessor() const {
  if (static_cast<size_t>(dim()) != N)
    throw c10::Error(c10::str("TensorAccessor expected ", N, " dims but tensor has ", dim()));
  return GenericPackedTensorAccessor<T, N, Traits, Index>(data_ptr<T>(), sizes(), strides());
}
template <typename T, size_t N, template <typename U> class Traits>
GenericPackedTensorAccessor<T, N, Traits, int32_t> Tensor::packed_accessor32() const {
  return generic_packed_accessor<T, N, Traits, int32_t>();
}
template <typename T, size_t N, template <typename U> class Traits>
GenericPackedTensorAccessor<T, N, Traits, int64_t> Tensor::packed_accessor64() const {
  return generic_packed_accessor<T, N, Traits, int64_t>();
}
template <typename T, size_t N>
TensorAccessor<T, N> Tensor::accessor() const {
  return TensorAccessor<T, N>(*this);
}

}  // namespace at

namespace torch {
using at::PackedTensorAccessor;
using at::PackedTensorAccessor32;
using at::PackedTensorAccessor64;
using at::RestrictPtrTraits;
}  // namespace torch
