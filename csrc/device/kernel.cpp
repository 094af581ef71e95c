#include "device/kernel.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

#include "core/failure.h"
#include "device/cubin.h"
#include "device/event.h"

namespace warpsmith {

namespace {

constexpr const char* kLayer = "device";
// Shared memory that every block can have without opting in.
constexpr unsigned kUsualSharedBytes = 48 << 10;
// A larger cluster runs only on some devices and needs an opt-in.
constexpr std::uint64_t kPortableClusterBlocks = 8;

[[noreturn]] void raise_argument(const std::string& operation, const std::string& message,
                                 const std::string& remedy = "") {
  throw Failure(FailureKind::kNative, kLayer, operation, EINVAL, message, remedy);
}

std::uint64_t volume(const Extent& extent) {
  std::uint64_t product = 1;
  for (const unsigned side : extent) product *= std::min(side, 0x1fffffu);  // 3 factors of 21 bits
  return product;
}

bool has_zero(const Extent& extent) { return std::ranges::find(extent, 0u) != extent.end(); }

// The driver gets an array of pointers and no length: it reads as many as the kernel has parameters.
std::vector<std::size_t> read_parameter_sizes(const cuda::Driver& driver, cuda::Function function) {
  std::vector<std::size_t> sizes;
  while (true) {
    std::size_t offset = 0;
    std::size_t size = 0;
    const cuda::Result result = driver.function_parameter.result(function, sizes.size(), &offset, &size);
    if (result == cuda::kInvalidValue) return sizes;
    if (result != cuda::kSuccess) driver.function_parameter.raise(result);
    sizes.push_back(size);
  }
}

cuda::LaunchAttribute cluster_attribute(const Extent& cluster) {
  cuda::LaunchAttribute attribute;
  attribute.id = cuda::kLaunchClusterDimension;
  std::ranges::copy(cluster, attribute.value.cluster);
  return attribute;
}

cuda::LaunchAttribute number_attribute(int id, int number) {
  cuda::LaunchAttribute attribute;
  attribute.id = id;
  attribute.value.number = number;
  return attribute;
}

}  // namespace

std::shared_ptr<const LoadedModule> LoadedModule::load(std::shared_ptr<const Device> device,
                                                       std::string_view cubin) {
  check_cubin(cubin);
  const CurrentContext current(*device);
  return std::make_shared<LoadedModule>(device, cubin.data());
}

LoadedModule::LoadedModule(std::shared_ptr<const Device> device, const void* image)
    : device_(std::move(device)) {
  device_->driver().module_load(&module_, image);
}

LoadedModule::~LoadedModule() {
  const CurrentContext current(*device_, std::nothrow);
  device_->driver().module_unload.result(module_);
}

cuda::Function LoadedModule::function(const std::string& name) const {
  cuda::Function function = nullptr;
  device_->driver().module_get_function(&function, module_, name.c_str());
  return function;
}

Variable LoadedModule::variable(const std::string& name) const {
  const CurrentContext current(*device_);
  Variable found{};
  device_->driver().module_get_global(&found.address, &found.bytes, module_, name.c_str());
  return found;
}

Launch::Launch(std::shared_ptr<const LoadedModule> module, cuda::Function function, const LaunchShape& shape,
               unsigned shared_bytes, const std::vector<std::string_view>& parameters)
    : module_(std::move(module)), function_(function), empty_(has_zero(shape.grid)) {
  std::ranges::copy(shape.grid, config_.grid);
  std::ranges::copy(shape.block, config_.block);
  config_.shared_bytes = shared_bytes;
  config_.attributes = attributes_.data();
  if (shape.cooperative) add_attribute(number_attribute(cuda::kLaunchCooperative, 1));
  if (volume(shape.cluster) > 1) {
    add_attribute(cluster_attribute(shape.cluster));
    // Like Triton's launches of clusters, so that both are equally fast.
    add_attribute(number_attribute(cuda::kLaunchClusterScheduling, cuda::kClusterSchedulingSpread));
  }
  store_parameters(parameters);
}

void Launch::add_attribute(const cuda::LaunchAttribute& attribute) {
  attributes_.at(config_.attribute_count++) = attribute;
}

void Launch::store_parameters(const std::vector<std::string_view>& parameters) {
  std::vector<std::size_t> starts;
  std::size_t units = 0;
  for (const std::string_view parameter : parameters) {
    starts.push_back(units);
    units += (parameter.size() + sizeof(Unit) - 1) / sizeof(Unit);
  }
  storage_.resize(units);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    std::byte* at = storage_[starts[i]].bytes;
    std::memcpy(at, parameters[i].data(), parameters[i].size());
    pointers_.push_back(at);
  }
}

void Launch::launch(std::uintptr_t stream) const {
  if (empty_) return;
  cuda::LaunchConfig config = config_;
  config.stream = as_stream(stream);
  // The driver only reads the pointers and what they point to.
  module_->device().driver().launch_kernel(&config, function_, const_cast<void**>(pointers_.data()), nullptr);
}

Kernel Kernel::load(std::shared_ptr<const Device> device, std::string_view cubin, const std::string& name,
                    unsigned shared_bytes) {
  const CurrentContext current(*device);
  return Kernel(LoadedModule::load(device, cubin), name, shared_bytes);
}

Kernel::Kernel(std::shared_ptr<const LoadedModule> module, std::string name, unsigned shared_bytes)
    : module_(std::move(module)),
      name_(std::move(name)),
      shared_bytes_(shared_bytes),
      function_(module_->function(name_)),
      parameter_sizes_(read_parameter_sizes(module_->device().driver(), function_)) {
  const auto own = static_cast<unsigned>(attribute(cuda::kSharedSizeBytes));
  // Another kernel object of the same function may have asked for more.
  if (shared_bytes_ > kUsualSharedBytes - std::min(own, kUsualSharedBytes) &&
      shared_bytes_ > static_cast<unsigned>(attribute(cuda::kMaxDynamicSharedSizeBytes)))
    allow_shared_memory();
}

int Kernel::attribute(cuda::FunctionAttribute which) const {
  const CurrentContext current(module_->device());
  int value = 0;
  module_->device().driver().function_get_attribute(&value, which, function_);
  return value;
}

void Kernel::allow_shared_memory() const {
  const Device& device = module_->device();
  const std::string remedy = "The kernel asks for " + std::to_string(shared_bytes_) +
                             " bytes of shared memory a block; this device gives at most " +
                             std::to_string(device.block_shared_bytes()) +
                             ": use smaller blocks or fewer stages.";
  if (shared_bytes_ > static_cast<unsigned>(std::numeric_limits<int>::max()))
    raise_argument("shared_bytes", "Too much shared memory.", remedy);
  const auto& set = device.driver().function_set_attribute;
  const cuda::Result result =
      set.result(function_, cuda::kMaxDynamicSharedSizeBytes, static_cast<int>(shared_bytes_));
  if (result != cuda::kSuccess) set.raise(result, remedy);
}

void Kernel::allow_cluster(const Extent& cluster) const {
  if (has_zero(cluster)) raise_argument("cluster", "Each side of a cluster has at least one block.");
  if (volume(cluster) <= kPortableClusterBlocks) return;
  const CurrentContext current(module_->device());
  module_->device().driver().function_set_attribute(function_, cuda::kNonPortableClusterSizeAllowed, 1);
}

void Kernel::check_parameters(const std::vector<std::string_view>& parameters) const {
  if (parameters.size() != parameter_sizes_.size())
    raise_argument("parameters",
                   "The kernel " + name_ + " takes " + std::to_string(parameter_sizes_.size()) +
                       " parameters; " + std::to_string(parameters.size()) + " were given.",
                   "Give those of the compiled kernel: Triton adds two scratch pointers of 8 bytes.");
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (parameters[i].size() != parameter_sizes_[i])
      raise_argument("parameters", "Parameter " + std::to_string(i) + " of the kernel " + name_ + " has " +
                                       std::to_string(parameter_sizes_[i]) + " bytes; " +
                                       std::to_string(parameters[i].size()) + " were given.");
}

std::unique_ptr<Launch> Kernel::prepare(const LaunchShape& shape,
                                        const std::vector<std::string_view>& parameters) const {
  check_parameters(parameters);
  allow_cluster(shape.cluster);
  return std::make_unique<Launch>(module_, function_, shape, shared_bytes_, parameters);
}

void Kernel::launch(const LaunchShape& shape, std::uintptr_t stream,
                    const std::vector<std::string_view>& parameters) const {
  const auto prepared = prepare(shape, parameters);
  const CurrentContext current(module_->device());
  prepared->launch(stream);
}

}  // namespace warpsmith
