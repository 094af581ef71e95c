#include "device/dlpack.h"

#include <memory>
#include <utility>

namespace warpsmith::dlpack {

namespace {

struct Owner {
  ManagedTensor managed;
  std::int64_t shape;
  std::int64_t stride;
  std::shared_ptr<const void> memory;
};

ManagedTensor* make_bytes(std::shared_ptr<const void> memory, const Device& device, cuda::Address address,
                          std::size_t size) {
  auto owner = std::make_unique<Owner>();
  owner->memory = std::move(memory);
  owner->shape = static_cast<std::int64_t>(size);
  owner->stride = 1;
  Tensor& tensor = owner->managed.tensor;
  tensor.data = reinterpret_cast<void*>(static_cast<std::uintptr_t>(address));
  tensor.device_type = kCuda;
  tensor.device_id = device.ordinal();
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

}  // namespace

ManagedTensor* make_tensor(const DeviceBuffer& buffer, std::size_t start, std::size_t size) {
  return make_bytes(buffer.memory(), buffer.memory()->device(), buffer.address() + start, size);
}

ManagedTensor* make_tensor(const std::shared_ptr<const LoadedModule>& module, const Variable& variable) {
  return make_bytes(module, module->device(), variable.address, variable.bytes);
}

void delete_tensor(ManagedTensor* tensor) { delete static_cast<Owner*>(tensor->manager); }

}  // namespace warpsmith::dlpack
