#include "device/device.h"

#include <array>
#include <new>

namespace warpsmith {

namespace {

using cuda::Driver;

cuda::DeviceId get_device(const Driver& driver, int ordinal) {
  cuda::DeviceId id = 0;
  driver.device_get(&id, ordinal);
  return id;
}

std::string get_name(const Driver& driver, cuda::DeviceId id) {
  std::array<char, 256> name{};
  driver.device_get_name(name.data(), name.size() - 1, id);
  return name.data();
}

std::string get_uuid(const Driver& driver, cuda::DeviceId id) {
  static constexpr char kDigits[] = "0123456789abcdef";
  cuda::Uuid uuid{};
  driver.device_get_uuid(&uuid, id);
  std::string text = "GPU";
  for (std::size_t i = 0; i < sizeof uuid.bytes; ++i) {
    if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += kDigits[uuid.bytes[i] >> 4];
    text += kDigits[uuid.bytes[i] & 15];
  }
  return text;
}

std::size_t get_total(const Driver& driver, cuda::DeviceId id) {
  std::size_t total = 0;
  driver.device_total_mem(&total, id);
  return total;
}

std::size_t get_granularity(const Driver& driver, const cuda::AllocationProperties& properties) {
  std::size_t granularity = 0;
  driver.mem_granularity(&granularity, &properties, cuda::kGranularityMinimum);
  return granularity;
}

cuda::Context retain_primary(const Driver& driver, cuda::DeviceId id) {
  cuda::Context context = nullptr;
  driver.primary_retain(&context, id);
  driver.context_set(context);
  return context;
}

}  // namespace

std::shared_ptr<Device> Device::open(int ordinal) {
  return std::shared_ptr<Device>(new Device(cuda::start_driver(), ordinal));
}

Device::Device(std::shared_ptr<const cuda::Driver> driver, int ordinal)
    : driver_(std::move(driver)),
      ordinal_(ordinal),
      id_(get_device(*driver_, ordinal)),
      name_(get_name(*driver_, id_)),
      arch_(10 * attribute(cuda::kComputeCapabilityMajor) + attribute(cuda::kComputeCapabilityMinor)),
      total_bytes_(get_total(*driver_, id_)),
      l2_bytes_(static_cast<std::size_t>(attribute(cuda::kL2CacheSize))),
      multiprocessors_(attribute(cuda::kMultiprocessorCount)),
      uuid_(get_uuid(*driver_, id_)),
      pageable_memory_access_(attribute(cuda::kPageableMemoryAccess) != 0),
      granularity_(get_granularity(*driver_, allocation_properties())),
      block_shared_bytes_(attribute(cuda::kMaxSharedMemoryPerBlockOptin)),
      addresses_(std::make_unique<AddressSpace>(*driver_, granularity_)),
      context_(retain_primary(*driver_, id_)) {}

int Device::attribute(cuda::DeviceAttribute which) const {
  int value = 0;
  driver_->device_get_attribute(&value, which, id_);
  return value;
}

cuda::AllocationProperties Device::allocation_properties() const {
  cuda::AllocationProperties properties;
  properties.location.id = id_;
  return properties;
}

void Device::use() const { driver_->context_set(context_); }

std::size_t Device::free_bytes() const {
  const CurrentContext current(*this);
  std::size_t free = 0;
  std::size_t total = 0;
  driver_->mem_get_info(&free, &total);
  return free;
}

void Device::synchronize() const {
  const CurrentContext current(*this);
  driver_->context_synchronize();
}

CurrentContext::CurrentContext(const Device& device) : driver_(device.driver()), pushed_(true) {
  driver_.context_push(device.context());
}

CurrentContext::CurrentContext(const Device& device, std::nothrow_t) noexcept
    : driver_(device.driver()), pushed_(driver_.context_push.result(device.context()) == cuda::kSuccess) {}

CurrentContext::~CurrentContext() {
  cuda::Context popped = nullptr;
  if (pushed_) driver_.context_pop.result(&popped);
}

}  // namespace warpsmith
