// What a module of host code is linked with: how Python calls it, and a CUDA runtime that asks Python instead of a GPU.
//
// It does not depend on a candidate, so it is compiled once. A function of the runtime that is not here is an
// unresolved symbol of the module, which is reported to the author.

#include <cuda_runtime_api.h>
#include <warpsmith/bind.h>


using warpsmith::Value;

namespace {

struct Kernel {
  const void* function;
  const char* name;
};
struct Variable {
  const void* address;
  const char* name;
  size_t size;
};

// Registered while the module is loaded, before main code of it runs.
std::vector<Kernel>& kernels() {
  static std::vector<Kernel> all;
  return all;
}
std::vector<Variable>& variables() {
  static std::vector<Variable> all;
  return all;
}

thread_local cudaError_t last_error = cudaSuccess;

cudaError_t noted(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

/// Ask Python; its answer is an error code of the runtime.
cudaError_t ask(const char* name, std::initializer_list<Value> args) {
  try {
    return noted(static_cast<cudaError_t>(warpsmith::invoke(name, args).integer));
  } catch (const std::exception&) {
    return noted(cudaErrorNotSupported);
  }
}

/// Ask Python for a number, which -1 - error replaces if it cannot say.
cudaError_t ask_number(const char* name, std::initializer_list<Value> args, int64_t* number) {
  try {
    *number = warpsmith::invoke(name, args).integer;
    return noted(*number < 0 ? static_cast<cudaError_t>(-1 - *number) : cudaSuccess);
  } catch (const std::exception&) {
    return noted(cudaErrorNotSupported);
  }
}

Value integer(uint64_t number) { return warpsmith::of_integer(static_cast<int64_t>(number)); }
Value pointer(const void* address) { return warpsmith::of_pointer(address); }
Value handle(const void* of) { return warpsmith::of_integer(static_cast<int64_t>(reinterpret_cast<intptr_t>(of))); }
Value text(const char* of) {
  Value made;
  made.kind = warpsmith::kText;
  made.size = static_cast<int32_t>(std::strlen(of));
  made.text = of;
  return made;
}

const char* kernel_name(const void* function) {
  for (const Kernel& kernel : kernels())
    if (kernel.function == function) return kernel.name;
  return nullptr;
}

const Variable* variable(const void* address) {
  for (const Variable& one : variables())
    if (one.address == address) return &one;
  return nullptr;
}

struct Configuration {
  dim3 grid, block;
  size_t shared;
  cudaStream_t stream;
};
thread_local std::vector<Configuration> configurations;

cudaError_t launch(const void* function, dim3 grid, dim3 block, void** args, size_t shared, cudaStream_t stream,
                   bool cooperative, dim3 cluster = {0, 0, 0}) {
  const char* name = kernel_name(function);
  if (!name) return noted(cudaErrorInvalidDeviceFunction);
  return ask("cuda.launch", {text(name), integer(grid.x), integer(grid.y), integer(grid.z), integer(block.x),
                             integer(block.y), integer(block.z), pointer(args), integer(shared), handle(stream),
                             integer(cooperative), integer(cluster.x), integer(cluster.y), integer(cluster.z)});
}

}  // namespace

extern "C" {

// How Python calls the module ------------------------------------------------------------------------------------------

const char* warpsmith_start(const warpsmith::Bridge* bridge) {
  static std::string said;
  warpsmith::bridge = bridge;
  try {
    pybind11::module_ module;
    warpsmith_bind(module);
  } catch (const std::exception& error) {
    said = error.what();
    return said.c_str();
  }
  return nullptr;
}

/// Ask Python for nothing more: tensors of static storage are destroyed after Python has ended.
void warpsmith_stop() { warpsmith::bridge = nullptr; }

int32_t warpsmith_count() { return static_cast<int32_t>(warpsmith::functions().size()); }
const char* warpsmith_name(int32_t index) { return warpsmith::functions()[index].name.c_str(); }
int32_t warpsmith_arity(int32_t index) { return static_cast<int32_t>(warpsmith::functions()[index].count); }
const char* warpsmith_argument(int32_t index, int32_t number) {
  const auto& names = warpsmith::functions()[index].names;
  return static_cast<size_t>(number) < names.size() ? names[number].c_str() : "";
}

int32_t warpsmith_attribute_count() { return static_cast<int32_t>(warpsmith::attributes().size()); }
const char* warpsmith_attribute_name(int32_t index) { return warpsmith::attributes()[index]->name.c_str(); }
const Value* warpsmith_attribute(int32_t index) { return &warpsmith::attributes()[index]->argument.value; }

/// Call a function with as many values as it has arguments; those of kind kMissing take their defaults.
int32_t warpsmith_call(int32_t index, const Value* args, Value* result) {
  warpsmith::answer.clear();
  const warpsmith::Function& function = warpsmith::functions()[index];
  int64_t kind = 0;
  std::string said;
  try {
    std::vector<Value> values(args, args + function.count);
    for (size_t i = 0; i < values.size(); ++i) {
      if (values[i].kind != warpsmith::kMissing) continue;
      if (i >= function.defaults.size() || function.defaults[i].kind == warpsmith::kMissing)
        throw warpsmith::TypeMismatch("argument " + std::to_string(i + 1) + " is missing");
      values[i] = function.defaults[i];
    }
    *result = (*function.call)(values.data());
    return 0;
  } catch (const warpsmith::TypeMismatch& error) {
    kind = 1;
    said = error.what();
  } catch (const c10::IndexError& error) {
    kind = 2;
    said = error.what();
  } catch (const c10::ValueError& error) {
    kind = 3;
    said = error.what();
  } catch (const c10::NotImplementedError& error) {
    kind = 4;
    said = error.what();
  } catch (const std::exception& error) {
    said = error.what();
  } catch (...) {
    said = "an exception that is not a std::exception";
  }
  *result = warpsmith::of_text(warpsmith::answer.text(said));
  return static_cast<int32_t>(1 + kind);
}

int32_t warpsmith_variable_count() { return static_cast<int32_t>(variables().size()); }
const char* warpsmith_variable(int32_t index) { return variables()[index].name; }

// What nvcc's code calls -----------------------------------------------------------------------------------------------

void** __cudaRegisterFatBinary(void*) {
  static void* handle = nullptr;
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
char __cudaInitModule(void**) { return 1; }
void __cudaRegisterFunction(void**, const char* function, char*, const char* name, int, uint3*, uint3*, dim3*, dim3*,
                            int*) {
  kernels().push_back({function, name});
}
void __cudaRegisterVar(void**, char* address, char*, const char* name, int, size_t size, int, int) {
  variables().push_back({address, name, size});
}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, CUstream_st* stream) {
  configurations.push_back({grid, block, shared, stream});
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
  if (configurations.empty()) return noted(cudaErrorMissingConfiguration);
  const Configuration last = configurations.back();
  configurations.pop_back();
  *grid = last.grid;
  *block = last.block;
  *shared = last.shared;
  *static_cast<cudaStream_t*>(stream) = last.stream;
  return cudaSuccess;
}

// Launches -------------------------------------------------------------------------------------------------------------

cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** args, size_t shared,
                             cudaStream_t stream) {
  return launch(function, grid, block, args, shared, stream, false);
}
// Since CUDA 12 nvcc's code asks for a handle of each kernel; here it is the function itself.
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  *kernel = static_cast<cudaKernel_t>(const_cast<void*>(function));
  return kernel_name(function) ? cudaSuccess : noted(cudaErrorInvalidDeviceFunction);
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** args, size_t shared,
                               cudaStream_t stream) {
  return launch(static_cast<const void*>(kernel), grid, block, args, shared, stream, false);
}
cudaError_t cudaLaunchCooperativeKernel(const void* function, dim3 grid, dim3 block, void** args, size_t shared,
                                        cudaStream_t stream) {
  return launch(function, grid, block, args, shared, stream, true);
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function, void** args) {
  bool cooperative = false;
  dim3 cluster{0, 0, 0};
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    const cudaLaunchAttribute& attribute = config->attrs[i];
    if (attribute.id == cudaLaunchAttributeCooperative) {
      cooperative = attribute.val.cooperative != 0;
    } else if (attribute.id == cudaLaunchAttributeClusterDimension) {
      cluster = dim3(attribute.val.clusterDim.x, attribute.val.clusterDim.y, attribute.val.clusterDim.z);
    } else if (attribute.id != cudaLaunchAttributePriority && attribute.id != cudaLaunchAttributeIgnore) {
      return ask("cuda.unsupported", {text("this launch attribute")});
    }
  }
  return launch(function, config->gridDim, config->blockDim, args, config->dynamicSmemBytes, config->stream,
                cooperative, cluster);
}
cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value) {
  const char* name = kernel_name(function);
  if (!name) return noted(cudaErrorInvalidDeviceFunction);
  return ask("cuda.set_attribute", {text(name), integer(attribute), integer(value)});
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* function) {
  const char* name = kernel_name(function);
  if (!name) return noted(cudaErrorInvalidDeviceFunction);
  std::memset(attributes, 0, sizeof *attributes);
  try {
    const Value facts = warpsmith::invoke("cuda.kernel_facts", {text(name)});
    attributes->numRegs = static_cast<int>(facts.items[0].integer);
    attributes->sharedSizeBytes = static_cast<size_t>(facts.items[1].integer);
    attributes->maxThreadsPerBlock = static_cast<int>(facts.items[2].integer);
    attributes->localSizeBytes = static_cast<size_t>(facts.items[3].integer);
    attributes->maxDynamicSharedSizeBytes = static_cast<int>(facts.items[4].integer);
  } catch (const std::exception&) {
    return noted(cudaErrorNotSupported);
  }
  return cudaSuccess;
}
cudaError_t cudaFuncSetCacheConfig(const void*, cudaFuncCache) { return cudaSuccess; }
cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache) { return cudaSuccess; }
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* function, int threads,
                                                                   size_t shared, unsigned) {
  const char* name = kernel_name(function);
  if (!name) return noted(cudaErrorInvalidDeviceFunction);
  int64_t found = 0;
  const cudaError_t error = ask_number("cuda.occupancy", {text(name), integer(threads), integer(shared)}, &found);
  *blocks = static_cast<int>(found);
  return error;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function, int threads,
                                                          size_t shared) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads, shared, 0);
}

// Memory ---------------------------------------------------------------------------------------------------------------

static cudaError_t allocate(void** address, size_t size) {
  try {
    *address = const_cast<void*>(warpsmith::invoke("cuda.allocate", {integer(size)}).pointer);
    return cudaSuccess;
  } catch (const std::exception&) {
    return noted(cudaErrorMemoryAllocation);
  }
}
cudaError_t cudaMalloc(void** address, size_t size) { return allocate(address, size); }
cudaError_t cudaMallocAsync(void** address, size_t size, cudaStream_t) { return allocate(address, size); }
cudaError_t cudaFree(void* address) { return ask("cuda.free", {pointer(address)}); }
cudaError_t cudaFreeAsync(void* address, cudaStream_t) { return ask("cuda.free", {pointer(address)}); }
cudaError_t cudaMallocHost(void** address, size_t size) {
  *address = std::calloc(size ? size : 1, 1);
  return *address ? cudaSuccess : noted(cudaErrorMemoryAllocation);
}
cudaError_t cudaHostAlloc(void** address, size_t size, unsigned) { return cudaMallocHost(address, size); }
cudaError_t cudaFreeHost(void* address) {
  std::free(address);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t size, cudaMemcpyKind kind, cudaStream_t stream) {
  return ask("cuda.copy", {pointer(to), pointer(from), integer(size), integer(kind), handle(stream)});
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t size, cudaMemcpyKind kind) {
  return cudaMemcpyAsync(to, from, size, kind, nullptr);
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t size, cudaStream_t stream) {
  return ask("cuda.fill", {pointer(to), integer(value), integer(size), handle(stream)});
}
cudaError_t cudaMemset(void* to, int value, size_t size) { return cudaMemsetAsync(to, value, size, nullptr); }
cudaError_t cudaMemcpyToSymbolAsync(const void* symbol, const void* from, size_t size, size_t offset,
                                    cudaMemcpyKind kind, cudaStream_t stream) {
  const Variable* found = variable(symbol);
  if (!found || offset > found->size || size > found->size - offset) return noted(cudaErrorInvalidSymbol);
  return ask("cuda.copy_to_symbol",
             {text(found->name), pointer(from), integer(size), integer(offset), integer(kind), handle(stream)});
}
cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* from, size_t size, size_t offset, cudaMemcpyKind kind) {
  return cudaMemcpyToSymbolAsync(symbol, from, size, offset, kind, nullptr);
}
cudaError_t cudaMemGetInfo(size_t* left, size_t* total) {
  int64_t bytes = 0;
  const cudaError_t error = ask_number("cuda.total_memory", {}, &bytes);
  *left = *total = static_cast<size_t>(bytes);
  return error;
}

// Streams and events ---------------------------------------------------------------------------------------------------

static cudaError_t create_stream(cudaStream_t* stream, unsigned flags) {
  int64_t made = 0;
  const cudaError_t error = ask_number("stream.create", {integer(flags)}, &made);
  *stream = reinterpret_cast<cudaStream_t>(static_cast<intptr_t>(made));
  return error;
}
cudaError_t cudaStreamCreate(cudaStream_t* stream) { return create_stream(stream, cudaStreamDefault); }
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) { return create_stream(stream, flags); }
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  return create_stream(stream, flags);
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) { return ask("stream.destroy", {handle(stream)}); }
cudaError_t cudaStreamSynchronize(cudaStream_t stream) { return ask("stream.synchronize", {handle(stream)}); }
cudaError_t cudaStreamQuery(cudaStream_t stream) { return cudaStreamSynchronize(stream); }
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  return ask("stream.wait_event", {handle(stream), handle(event)});
}
cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* status) {
  *status = cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  int64_t made = 0;
  const cudaError_t error = ask_number("event.create", {}, &made);
  *event = reinterpret_cast<cudaEvent_t>(static_cast<intptr_t>(made));
  return error;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }
cudaError_t cudaEventDestroy(cudaEvent_t event) { return ask("event.destroy", {handle(event)}); }
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return ask("event.record", {handle(event), handle(stream)});
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned) {
  return cudaEventRecord(event, stream);
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) { return ask("event.synchronize", {handle(event)}); }
cudaError_t cudaEventQuery(cudaEvent_t event) { return cudaEventSynchronize(event); }
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t, cudaEvent_t) {
  *milliseconds = 0.01f;
  return cudaSuccess;
}

// The device -----------------------------------------------------------------------------------------------------------

cudaError_t cudaDeviceSynchronize() { return ask("stream.synchronize_all", {}); }
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) { return device == 0 ? cudaSuccess : noted(cudaErrorInvalidDevice); }
cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  if (device != 0) return noted(cudaErrorInvalidDevice);
  int64_t found = 0;
  const cudaError_t error = ask_number("cuda.device_attribute", {integer(attribute)}, &found);
  *value = static_cast<int>(found);
  return error;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (device != 0) return noted(cudaErrorInvalidDevice);
  std::memset(properties, 0, sizeof *properties);
  try {
    const Value facts = warpsmith::invoke("cuda.device_facts", {});
    const size_t length = std::min(sizeof properties->name - 1, static_cast<size_t>(facts.items[0].size));
    std::memcpy(properties->name, facts.items[0].text, length);
    properties->totalGlobalMem = static_cast<size_t>(facts.items[1].integer);
  } catch (const std::exception&) {
    return noted(cudaErrorNotSupported);
  }
  const std::pair<cudaDeviceAttr, int*> numbers[] = {
      {cudaDevAttrComputeCapabilityMajor, &properties->major},
      {cudaDevAttrComputeCapabilityMinor, &properties->minor},
      {cudaDevAttrMultiProcessorCount, &properties->multiProcessorCount},
      {cudaDevAttrWarpSize, &properties->warpSize},
      {cudaDevAttrMaxThreadsPerBlock, &properties->maxThreadsPerBlock},
      {cudaDevAttrMaxThreadsPerMultiProcessor, &properties->maxThreadsPerMultiProcessor},
      {cudaDevAttrMaxRegistersPerBlock, &properties->regsPerBlock},
      {cudaDevAttrMaxRegistersPerMultiprocessor, &properties->regsPerMultiprocessor},
      {cudaDevAttrL2CacheSize, &properties->l2CacheSize},
      {cudaDevAttrMaxBlocksPerMultiprocessor, &properties->maxBlocksPerMultiProcessor},
      {cudaDevAttrMaxBlockDimX, &properties->maxThreadsDim[0]},
      {cudaDevAttrMaxBlockDimY, &properties->maxThreadsDim[1]},
      {cudaDevAttrMaxBlockDimZ, &properties->maxThreadsDim[2]},
      {cudaDevAttrMaxGridDimX, &properties->maxGridSize[0]},
      {cudaDevAttrMaxGridDimY, &properties->maxGridSize[1]},
      {cudaDevAttrMaxGridDimZ, &properties->maxGridSize[2]},
      {cudaDevAttrConcurrentKernels, &properties->concurrentKernels},
      {cudaDevAttrCooperativeLaunch, &properties->cooperativeLaunch},
  };
  for (const auto& [attribute, number] : numbers)
    if (const cudaError_t error = cudaDeviceGetAttribute(number, attribute, 0)) return error;
  const std::pair<cudaDeviceAttr, size_t*> sizes[] = {
      {cudaDevAttrMaxSharedMemoryPerBlock, &properties->sharedMemPerBlock},
      {cudaDevAttrMaxSharedMemoryPerBlockOptin, &properties->sharedMemPerBlockOptin},
      {cudaDevAttrMaxSharedMemoryPerMultiprocessor, &properties->sharedMemPerMultiprocessor},
      {cudaDevAttrTotalConstantMemory, &properties->totalConstMem},
  };
  for (const auto& [attribute, size] : sizes) {
    int found = 0;
    if (const cudaError_t error = cudaDeviceGetAttribute(&found, attribute, 0)) return error;
    *size = static_cast<size_t>(found);
  }
  return cudaSuccess;
}
cudaError_t cudaDeviceSetLimit(cudaLimit, size_t) { return cudaSuccess; }
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) { return cudaRuntimeGetVersion(version); }
cudaError_t cudaGetLastError() {
  const cudaError_t error = last_error;
  last_error = cudaSuccess;
  return error;
}
cudaError_t cudaPeekAtLastError() { return last_error; }
const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorInvalidConfiguration:
      return "invalid configuration argument";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    case cudaErrorInvalidSymbol:
      return "invalid device symbol";
    case cudaErrorInvalidDeviceFunction:
      return "invalid device function";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorNotSupported:
      return "operation not supported";
    default:
      return "unspecified error";
  }
}
const char* cudaGetErrorName(cudaError_t error) { return cudaGetErrorString(error); }

}  // extern "C"
