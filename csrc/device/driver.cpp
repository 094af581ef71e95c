#include "device/driver.h"

#include <dlfcn.h>

#include "core/failure.h"

namespace warpsmith::cuda {

namespace {

constexpr const char* kLayer = "device";
constexpr const char* kLibrary = "libcuda.so.1";

std::string last_dl_error() {
  const char* text = ::dlerror();
  return text == nullptr ? "unknown error" : text;
}

void* open_library() {
  void* handle = ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr)
    throw Failure(FailureKind::kNative, kLayer, "dlopen", 0,
                  "device: the CUDA driver's library cannot be opened: " + last_dl_error() + ".",
                  "Install the NVIDIA driver, or pass the driver's libraries into the container "
                  "(docker run --gpus all).");
  return handle;
}

constexpr const char* kLostContext =
    "A kernel broke the device's context: end this process and continue in a new one.";

std::string usual_remedy(Result result) {
  switch (result) {
    case kOutOfMemory:
      return "Free device memory, or request less; nvidia-smi names the processes that hold it.";
    case kNotInitialized:
      return "This process was forked from one that had used CUDA: fork before using CUDA.";
    case kStubLibrary:
      return "A toolkit's stub libcuda.so.1 was found first: remove it from LD_LIBRARY_PATH.";
    case kNoDevice:
      return "Run on a machine with an NVIDIA GPU and let this process see it (CUDA_VISIBLE_DEVICES, "
             "docker run --gpus all).";
    case kInvalidDevice:
      return "Give an ordinal from 0 to device_count() - 1.";
    case kInvalidContext:
      return "Call Device.use() on this thread first.";
    case kInvalidImage:
    case kNoBinaryForGpu:
      return "Compile the kernel for this device: Device.arch names its architecture.";
    case kNotFound:
      return "Give the kernel's symbol as the compiler names it.";
    case kLaunchOutOfResources:
      return "Launch fewer threads per block, or a kernel that needs fewer registers or less shared memory.";
    case kCooperativeLaunchTooLarge:
      return "A cooperative grid must fit on the device at once: launch fewer blocks.";
    case kInvalidClusterSize:
      return "Each side of the grid must be a multiple of the cluster's, and a cluster has at most 8 blocks "
             "(16 where the device allows).";
    case kOperatingSystem:
      return "The operating system refused the driver something: give a descriptor that a DeviceBuffer "
             "exported, and raise the limit of open descriptors if it is reached.";
    case kNotSupported:
      return "The device, its driver or its virtualisation does not offer this.";
    case kSystemDriverMismatch:
      return "The kernel's module and libcuda are of different versions: reboot, or repair the container's "
             "libraries.";
    case kIllegalAddress:
    case kLaunchTimeout:
    case kAssert:
    case kHardwareStackError:
    case kIllegalInstruction:
    case kMisalignedAddress:
    case kInvalidAddressSpace:
    case kInvalidPc:
    case kLaunchFailed:
      return kLostContext;
    default:
      return "";
  }
}

}  // namespace

Library::Library()
    : handle_(open_library()),
      error_name_(reinterpret_cast<Result (*)(Result, const char**)>(symbol("cuGetErrorName"))),
      error_string_(reinterpret_cast<Result (*)(Result, const char**)>(symbol("cuGetErrorString"))) {}

void* Library::symbol(const char* name) const {
  void* address = ::dlsym(handle_, name);
  if (address == nullptr)
    throw Failure(FailureKind::kNative, kLayer, name, 0,
                  std::string("device: the CUDA driver has no ") + name + ".",
                  "Install an NVIDIA driver of CUDA 12.4 or later (550 or later).");
  return address;
}

std::string Library::describe(Result result) const {
  const char* name = nullptr;
  const char* text = nullptr;
  if (error_name_(result, &name) != kSuccess || name == nullptr) return "an unknown error";
  if (error_string_(result, &text) != kSuccess || text == nullptr) return name;
  return std::string(name) + " (" + text + ")";
}

void Library::raise(const char* operation, Result result, const std::string& remedy) const {
  throw Failure(FailureKind::kNative, kLayer, operation, result,
                std::string("device: ") + operation + " failed: " + describe(result) + ", result " +
                    std::to_string(result) + ".",
                remedy.empty() ? usual_remedy(result) : remedy);
}

std::shared_ptr<const Driver> start_driver() {
  auto driver = std::make_shared<const Driver>();
  driver->init(0);
  return driver;
}

int device_count() {
  const Driver driver;
  const Result started = driver.init.result(0);
  if (started == kNoDevice) return 0;
  if (started != kSuccess) driver.init.raise(started);
  int count = 0;
  driver.device_get_count(&count);
  return count;
}

bool driver_untouched() {
  void* handle = ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  if (handle == nullptr) return true;
  const auto get_count = reinterpret_cast<Result (*)(int*)>(::dlsym(handle, "cuDeviceGetCount"));
  int count = 0;
  const bool untouched = get_count == nullptr || get_count(&count) == kNotInitialized;
  ::dlclose(handle);
  return untouched;
}

}  // namespace warpsmith::cuda
