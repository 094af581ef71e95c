#include "device/dlpack.h"

#include <memory>

namespace warpsmith::dlpack {

namespace {

struct Owner {
  ManagedTensor managed;
  std::int64_t shape;
  std::int64_t stride;
  std::shared_ptr<DeviceMemory> memory;
};

}  // namespace

ManagedTensor* make_tensor(const DeviceBuffer& buffer, std::size_t start, std::size_t size) {
  auto owner = std::make_unique<Owner>();
  owner->memory = buffer.memory();
  owner->shape = static_cast<std::int64_t>(size);
  owner->stride = 1;
  Tensor& tensor = owner->managed.tensor;
  tensor.data = reinterpret_cast<void*>(static_cast<std::uintptr_t>(buffer.address() + start));
  tensor.device_type = kCuda;
  tensor.device_id = owner->memory->device().ordinal();
  tensor.dimensions = 1;
  tensor.code = kUnsignedInteger;
  tensor.bits = 8;
  tensor.lanes = 1;
  tensor.shape = &owner->shape;
  tensor.strides = &owner->stride;
  tensor.byte_offset = 0;
  owner->managed.manager = owner.get();
  owner->managed.deleter = delete_tensor;
  return &owner.release()->managed;
}

void delete_tensor(ManagedTensor* tensor) { delete static_cast<Owner*>(tensor->manager); }

}  // namespace warpsmith::dlpack
