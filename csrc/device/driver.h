#pragma once

#include <memory>
#include <string>

#include "device/cuda_abi.h"

namespace warpsmith::cuda {

/// libcuda.so.1, never closed: a driver that has started threads cannot be unloaded.
class Library {
 public:
  /// Raises Failure if the library cannot be opened.
  Library();

  /// The address of a function by its versioned name. Raises Failure if the driver is too old to have it.
  void* symbol(const char* name) const;

  /// Throw the Failure for `result` of the call `operation`; `remedy` replaces the default one.
  [[noreturn]] void raise(const char* operation, Result result, const std::string& remedy = "") const;

 private:
  std::string describe(Result result) const;

  void* handle_;
  Result (*error_name_)(Result, const char**);
  Result (*error_string_)(Result, const char**);
};

/// One function of the driver. A call throws Failure for every result except success.
template <typename... Arguments>
class Call {
 public:
  Call(const Library& library, const char* name)
      : library_(library),
        name_(name),
        function_(reinterpret_cast<Result (*)(Arguments...)>(library.symbol(name))) {}

  void operator()(Arguments... arguments) const {
    const Result result = function_(arguments...);
    if (result != kSuccess) [[unlikely]]
      library_.raise(name_, result);
  }
  /// The raw result, for callers that do not treat every result as a failure.
  Result result(Arguments... arguments) const noexcept { return function_(arguments...); }
  [[noreturn]] void raise(Result result, const std::string& remedy = "") const {
    library_.raise(name_, result, remedy);
  }

 private:
  const Library& library_;
  const char* name_;
  Result (*function_)(Arguments...);
};

/// The functions of the driver API. The unsuffixed stream calls are those of the legacy default stream.
struct Driver {
  Driver() = default;
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  Library library;

  Call<unsigned> init{library, "cuInit"};
  Call<int*> driver_get_version{library, "cuDriverGetVersion"};
  Call<int*> device_get_count{library, "cuDeviceGetCount"};
  Call<DeviceId*, int> device_get{library, "cuDeviceGet"};
  Call<char*, int, DeviceId> device_get_name{library, "cuDeviceGetName"};
  Call<Uuid*, DeviceId> device_get_uuid{library, "cuDeviceGetUuid_v2"};
  Call<std::size_t*, DeviceId> device_total_mem{library, "cuDeviceTotalMem_v2"};
  Call<int*, int, DeviceId> device_get_attribute{library, "cuDeviceGetAttribute"};
  Call<Context*, DeviceId> primary_retain{library, "cuDevicePrimaryCtxRetain"};

  Call<Context> context_set{library, "cuCtxSetCurrent"};
  Call<Context> context_push{library, "cuCtxPushCurrent_v2"};
  Call<Context*> context_pop{library, "cuCtxPopCurrent_v2"};
  Call<> context_synchronize{library, "cuCtxSynchronize"};

  Call<std::size_t*, std::size_t*> mem_get_info{library, "cuMemGetInfo_v2"};
  Call<std::size_t*, const AllocationProperties*, int> mem_granularity{library,
                                                                       "cuMemGetAllocationGranularity"};
  Call<MemoryHandle*, std::size_t, const AllocationProperties*, unsigned long long> mem_create{library,
                                                                                               "cuMemCreate"};
  Call<void*, MemoryHandle, int, unsigned long long> mem_export{library, "cuMemExportToShareableHandle"};
  Call<MemoryHandle*, void*, int> mem_import{library, "cuMemImportFromShareableHandle"};
  Call<Address*, std::size_t, std::size_t, Address, unsigned long long> address_reserve{
      library, "cuMemAddressReserve"};
  Call<Address, std::size_t, std::size_t, MemoryHandle, unsigned long long> mem_map{library, "cuMemMap"};
  Call<Address, std::size_t, const AccessDescription*, std::size_t> mem_set_access{library, "cuMemSetAccess"};
  Call<Address, std::size_t> mem_unmap{library, "cuMemUnmap"};
  Call<Address, std::size_t> address_free{library, "cuMemAddressFree"};
  Call<MemoryHandle> mem_release{library, "cuMemRelease"};
  Call<Address, unsigned char, std::size_t> memset_bytes{library, "cuMemsetD8_v2"};
  Call<void**, std::size_t, unsigned> host_alloc{library, "cuMemHostAlloc"};
  Call<Address*, void*, unsigned> host_device_pointer{library, "cuMemHostGetDevicePointer_v2"};
  Call<void*> host_free{library, "cuMemFreeHost"};

  Call<Module*, const void*> module_load{library, "cuModuleLoadData"};
  Call<Module> module_unload{library, "cuModuleUnload"};
  Call<Function*, Module, const char*> module_get_function{library, "cuModuleGetFunction"};
  Call<Address*, std::size_t*, Module, const char*> module_get_global{library, "cuModuleGetGlobal_v2"};
  Call<int*, int, Function> function_get_attribute{library, "cuFuncGetAttribute"};
  Call<Function, int, int> function_set_attribute{library, "cuFuncSetAttribute"};
  Call<Function, std::size_t, std::size_t*, std::size_t*> function_parameter{library, "cuFuncGetParamInfo"};
  Call<const LaunchConfig*, Function, void**, void**> launch_kernel{library, "cuLaunchKernelEx"};
  Call<TensorMap*, int, unsigned, void*, const std::uint64_t*, const std::uint64_t*, const std::uint32_t*,
       const std::uint32_t*, int, int, int, int>
      tensor_map_encode{library, "cuTensorMapEncodeTiled"};

  Call<Stream> stream_synchronize{library, "cuStreamSynchronize"};
  Call<Stream, Address, std::uint32_t, unsigned> stream_wait_value{library, "cuStreamWaitValue32_v2"};
  Call<Event*, unsigned> event_create{library, "cuEventCreate"};
  Call<Event> event_destroy{library, "cuEventDestroy_v2"};
  Call<Event, Stream> event_record{library, "cuEventRecord"};
  Call<Event> event_query{library, "cuEventQuery"};
  Call<Event> event_synchronize{library, "cuEventSynchronize"};
  Call<float*, Event, Event> event_elapsed{library, "cuEventElapsedTime"};
};

/// Open the driver and initialise it in this process. Raises Failure.
std::shared_ptr<const Driver> start_driver();

/// The number of devices; 0 if the driver runs and sees none. Raises Failure, also without a driver.
int device_count();

/// Whether CUDA is unused in this process, so that its children can use it: libcuda is not loaded, or loaded
/// and not initialised. Loads and initialises nothing.
bool driver_untouched();

}  // namespace warpsmith::cuda
