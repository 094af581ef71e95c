// Runs CUDA kernels as host code: the threads of a block are fibers that meet at each barrier and shuffle.
//
// Enough for the generator's solutions: all threads of a block pass the same barriers. A block whose threads do not is
// an error. Fibers run in ascending or in descending order, so that results which depend on it differ.
#pragma once

#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <initializer_list>
#include <memory>
#include <vector>

#define __global__ static
#define __device__ static
#define __shared__ static

struct dim3 {
  unsigned x, y, z;
  dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
static dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace emulated {

constexpr size_t kStack = 64 << 10;
struct Fiber {
  ucontext_t context;
  std::unique_ptr<char[]> stack{new char[kStack]};
  dim3 thread;
  bool done = false;
};
static std::vector<Fiber> fibers;
static Fiber* current = nullptr;
static ucontext_t scheduler;
static std::function<void()> body;
static bool descending = false;
static std::vector<float> lanes;

inline int linear() { return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z); }
inline void enter() {
  body();
  current->done = true;
  swapcontext(&current->context, &scheduler);
}
inline void wait() { swapcontext(&current->context, &scheduler); }

/// Run each fiber to its next barrier, again and again until all are done.
inline void run_block() {
  const int count = fibers.size();
  int done = 0;
  while (done < count) {
    for (int i = 0; i < count; ++i) {
      current = &fibers[descending ? count - 1 - i : i];
      threadIdx = current->thread;
      swapcontext(&scheduler, &current->context);
      done += current->done;
    }
    if (done != 0 && done != count) std::abort();  // some wait at a barrier that others never reach
  }
}

template <typename F>
void launch(dim3 grid, dim3 block, F kernel) {
  gridDim = grid;
  blockDim = block;
  body = kernel;
  const unsigned count = block.x * block.y * block.z;
  lanes.assign((count + 31) / 32 * 32, 0.0f);
  for (unsigned b = 0; b < grid.x * grid.y * grid.z; ++b) {
    blockIdx = dim3(b % grid.x, b / grid.x % grid.y, b / grid.x / grid.y);
    fibers.resize(count);
    for (unsigned t = 0; t < count; ++t) {
      Fiber& fiber = fibers[t];
      fiber.done = false;
      fiber.thread = dim3(t % block.x, t / block.x % block.y, t / block.x / block.y);
      getcontext(&fiber.context);
      fiber.context.uc_stack.ss_sp = fiber.stack.get();
      fiber.context.uc_stack.ss_size = kStack;
      makecontext(&fiber.context, enter, 0);
    }
    run_block();
  }
}

inline float exchanged(float value, int from) {
  const int own = linear();
  lanes[own] = value;
  wait();
  const float found = from < 0 || from > 31 ? value : lanes[own / 32 * 32 + from];
  wait();
  return found;
}

}  // namespace emulated

static inline void __syncthreads() { emulated::wait(); }
static inline float __shfl_xor_sync(unsigned, float value, int mask) {
  return emulated::exchanged(value, (emulated::linear() % 32) ^ mask);
}
static inline float __shfl_up_sync(unsigned, float value, unsigned delta) {
  return emulated::exchanged(value, emulated::linear() % 32 - static_cast<int>(delta));
}
static inline float rsqrtf(float value) { return 1.0f / sqrtf(value); }

namespace torch {

struct Options {};
class Tensor {
 public:
  Tensor(void* data, std::vector<int64_t> sizes) : data_(data), sizes_(std::move(sizes)) {}
  explicit Tensor(std::vector<int64_t> sizes) : Tensor(nullptr, std::move(sizes)) {
    own_.reset(new float[numel()], std::default_delete<float[]>());
    std::fill(own_.get(), own_.get() + numel(), NAN);
    data_ = own_.get();
  }
  int64_t size(int64_t axis) const { return sizes_[axis < 0 ? axis + sizes_.size() : axis]; }
  int64_t numel() const {
    int64_t count = 1;
    for (const int64_t size : sizes_) count *= size;
    return count;
  }
  const std::vector<int64_t>& sizes() const { return sizes_; }
  Options options() const { return {}; }
  template <typename T>
  T* data_ptr() const {
    return static_cast<T*>(data_);
  }

 private:
  std::shared_ptr<float> own_;
  void* data_;
  std::vector<int64_t> sizes_;
};
inline Tensor empty(std::initializer_list<int64_t> sizes, Options) { return Tensor(std::vector<int64_t>(sizes)); }
inline Tensor empty_like(const Tensor& like) { return Tensor(like.sizes()); }

}  // namespace torch

struct Described {
  void* data;
  int64_t dims;
  int64_t sizes[4];
};
static inline torch::Tensor tensor_of(const Described& one) {
  return torch::Tensor(one.data, std::vector<int64_t>(one.sizes, one.sizes + one.dims));
}
static inline int64_t deliver(const torch::Tensor& out, float* to) {
  std::copy(out.data_ptr<float>(), out.data_ptr<float>() + out.numel(), to);
  return out.numel();
}
extern "C" void set_descending(int value) { emulated::descending = value != 0; }
