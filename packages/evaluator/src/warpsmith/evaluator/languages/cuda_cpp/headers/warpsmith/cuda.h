// Streams, guards, events and checks of at::cuda and c10::cuda.
#pragma once

#include <cuda_runtime_api.h>
#include <warpsmith/tensor.h>

namespace c10 {
namespace cuda {

inline void check(cudaError_t status, const char*, int, const char* expression) {
  if (status != cudaSuccess)
    throw Error(str("CUDA error: ", cudaGetErrorString(status), " (", expression, ")"));
}

class CUDAStream {
 public:
  explicit CUDAStream(cudaStream_t stream = nullptr) : stream_(stream) {}
  operator cudaStream_t() const { return stream_; }
  cudaStream_t stream() const { return stream_; }
  void synchronize() const { check(cudaStreamSynchronize(stream_), "", 0, "cudaStreamSynchronize"); }
  bool query() const { return cudaStreamQuery(stream_) == cudaSuccess; }
  c10::DeviceIndex device_index() const { return 0; }
  c10::Device device() const { return c10::Device(c10::kCUDA, 0); }
  CUDAStream unwrap() const { return *this; }
  friend bool operator==(const CUDAStream& a, const CUDAStream& b) { return a.stream_ == b.stream_; }
  friend bool operator!=(const CUDAStream& a, const CUDAStream& b) { return !(a == b); }

 private:
  cudaStream_t stream_;
};

inline cudaStream_t asked_stream(const char* name) {
  return reinterpret_cast<cudaStream_t>(static_cast<intptr_t>(warpsmith::invoke(name, {}).integer));
}
inline void make_current(CUDAStream stream) {
  warpsmith::invoke("stream.make_current", {warpsmith::of_integer(reinterpret_cast<intptr_t>(stream.stream()))});
}
inline CUDAStream getCurrentCUDAStream(c10::DeviceIndex = -1) { return CUDAStream(asked_stream("stream.current")); }
inline CUDAStream getDefaultCUDAStream(c10::DeviceIndex = -1) { return CUDAStream(); }
inline CUDAStream getStreamFromPool(bool = false, c10::DeviceIndex = -1) {
  return CUDAStream(asked_stream("stream.pool"));
}
inline void setCurrentCUDAStream(CUDAStream stream) { make_current(stream); }
inline c10::DeviceIndex current_device() { return 0; }
inline c10::DeviceIndex device_count() { return 1; }
inline void set_device(c10::DeviceIndex) {}
inline void device_synchronize() { check(cudaDeviceSynchronize(), "", 0, "cudaDeviceSynchronize"); }

class CUDAStreamGuard {
 public:
  explicit CUDAStreamGuard(CUDAStream stream) : before_(getCurrentCUDAStream()) { make_current(stream); }
  CUDAStreamGuard(const CUDAStreamGuard&) = delete;
  CUDAStreamGuard& operator=(const CUDAStreamGuard&) = delete;
  ~CUDAStreamGuard() { make_current(before_); }
  CUDAStream current_stream() const { return getCurrentCUDAStream(); }
  CUDAStream original_stream() const { return before_; }

 private:
  CUDAStream before_;
};

class CUDAGuard {
 public:
  explicit CUDAGuard(c10::DeviceIndex) {}
  explicit CUDAGuard(c10::Device) {}
  CUDAGuard(const CUDAGuard&) = delete;
  CUDAGuard& operator=(const CUDAGuard&) = delete;
  void set_device(c10::Device) {}
  void set_index(c10::DeviceIndex) {}
};
class OptionalCUDAGuard {
 public:
  OptionalCUDAGuard() {}
  explicit OptionalCUDAGuard(std::optional<c10::Device>) {}
  explicit OptionalCUDAGuard(c10::DeviceIndex) {}
  void set_device(c10::Device) {}
  void set_index(c10::DeviceIndex) {}
  void reset_device(c10::Device) {}
};

}  // namespace cuda

using DeviceGuard = cuda::CUDAGuard;
using OptionalDeviceGuard = cuda::OptionalCUDAGuard;

}  // namespace c10

namespace at {
using DeviceGuard = c10::DeviceGuard;
inline c10::Device device_of(const Tensor& tensor) { return tensor.device(); }

namespace cuda {

using c10::cuda::CUDAGuard;
using c10::cuda::CUDAStream;
using c10::cuda::CUDAStreamGuard;
using c10::cuda::current_device;
using c10::cuda::device_count;
using c10::cuda::device_synchronize;
using c10::cuda::getCurrentCUDAStream;
using c10::cuda::getDefaultCUDAStream;
using c10::cuda::getStreamFromPool;
using c10::cuda::OptionalCUDAGuard;
using c10::cuda::set_device;
using c10::cuda::setCurrentCUDAStream;

inline bool is_available() { return true; }
inline int warp_size() { return 32; }
inline cudaDeviceProp* getCurrentDeviceProperties() {
  static cudaDeviceProp properties;
  c10::cuda::check(cudaGetDeviceProperties(&properties, 0), "", 0, "cudaGetDeviceProperties");
  return &properties;
}
inline cudaDeviceProp* getDeviceProperties(c10::DeviceIndex) { return getCurrentDeviceProperties(); }
template <typename T>
T ATenCeilDiv(T a, T b) {
  return (a + b - 1) / b;
}

class CUDAEvent {
 public:
  explicit CUDAEvent(unsigned int = 0) { c10::cuda::check(cudaEventCreate(&event_), "", 0, "cudaEventCreate"); }
  CUDAEvent(const CUDAEvent&) = delete;
  CUDAEvent& operator=(const CUDAEvent&) = delete;
  ~CUDAEvent() { (void)cudaEventDestroy(event_); }
  operator cudaEvent_t() const { return event_; }
  cudaEvent_t event() const { return event_; }
  void record() { record(getCurrentCUDAStream()); }
  void record(const CUDAStream& stream) { c10::cuda::check(cudaEventRecord(event_, stream), "", 0, "cudaEventRecord"); }
  void block(const CUDAStream& stream) {
    c10::cuda::check(cudaStreamWaitEvent(stream, event_, 0), "", 0, "cudaStreamWaitEvent");
  }
  void synchronize() const { c10::cuda::check(cudaEventSynchronize(event_), "", 0, "cudaEventSynchronize"); }
  bool query() const { return true; }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace cuda
}  // namespace at

namespace torch {
namespace cuda {
inline bool is_available() { return true; }
inline int64_t device_count() { return 1; }
inline void synchronize(int64_t = -1) { c10::cuda::device_synchronize(); }
}  // namespace cuda
}  // namespace torch

#define C10_CUDA_CHECK(expression) ::c10::cuda::check((expression), __FILE__, __LINE__, #expression)
#define AT_CUDA_CHECK(expression) C10_CUDA_CHECK(expression)
#define TORCH_CUDA_CHECK(expression) C10_CUDA_CHECK(expression)
#define C10_CUDA_CHECK_WARN(expression) (void)(expression)
#define C10_CUDA_IGNORE_ERROR(expression) (void)(expression)
#define C10_CUDA_CLEAR_ERROR() (void)cudaGetLastError()
#define C10_CUDA_KERNEL_LAUNCH_CHECK() C10_CUDA_CHECK(cudaGetLastError())
#define TORCH_CUDA_KERNEL_LAUNCH_CHECK() C10_CUDA_KERNEL_LAUNCH_CHECK()
#define THCudaCheck(expression) C10_CUDA_CHECK(expression)

#if defined(__CUDACC__)
#define CUDA_KERNEL_LOOP_TYPE(i, n, index_type)                                                          \
  for (index_type i = static_cast<index_type>(blockIdx.x) * blockDim.x + threadIdx.x; i < (n);           \
       i += static_cast<index_type>(blockDim.x) * gridDim.x)
#define CUDA_KERNEL_LOOP(i, n) CUDA_KERNEL_LOOP_TYPE(i, n, int)
#define CUDA_1D_KERNEL_LOOP(i, n) CUDA_KERNEL_LOOP(i, n)
#define CUDA_KERNEL_ASSERT(condition) assert(condition)

template <typename T>
__device__ inline T WARP_SHFL(T value, int lane, int width = 32, unsigned mask = 0xffffffff) {
  return __shfl_sync(mask, value, lane, width);
}
template <typename T>
__device__ inline T WARP_SHFL_DOWN(T value, unsigned delta, int width = 32, unsigned mask = 0xffffffff) {
  return __shfl_down_sync(mask, value, delta, width);
}
template <typename T>
__device__ inline T WARP_SHFL_XOR(T value, int lanes, int width = 32, unsigned mask = 0xffffffff) {
  return __shfl_xor_sync(mask, value, lanes, width);
}

__device__ inline float gpuAtomicAdd(float* address, float value) { return atomicAdd(address, value); }
__device__ inline double gpuAtomicAdd(double* address, double value) { return atomicAdd(address, value); }
__device__ inline int gpuAtomicAdd(int* address, int value) { return atomicAdd(address, value); }
__device__ inline c10::Half gpuAtomicAdd(c10::Half* address, c10::Half value) {
  return atomicAdd(reinterpret_cast<__half*>(address), static_cast<__half>(value));
}
__device__ inline c10::BFloat16 gpuAtomicAdd(c10::BFloat16* address, c10::BFloat16 value) {
  return atomicAdd(reinterpret_cast<__nv_bfloat16*>(address), static_cast<__nv_bfloat16>(value));
}
template <typename T>
__device__ inline void gpuAtomicAddNoReturn(T* address, T value) {
  gpuAtomicAdd(address, value);
}
#endif
