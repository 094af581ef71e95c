#pragma once

#include <cstddef>
#include <cstdint>

/// The part of the CUDA driver's binary interface that is used here. No CUDA header is included, so that one
/// build serves machines with and without a toolkit; the layouts are checked below.
namespace warpsmith::cuda {

using Result = int;
using DeviceId = int;
/// An address in device memory.
using Address = unsigned long long;
using MemoryHandle = unsigned long long;
using Context = struct ContextTag*;
using Module = struct ModuleTag*;
using Function = struct FunctionTag*;
using Stream = struct StreamTag*;
using Event = struct EventTag*;

enum : Result {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kStubLibrary = 34,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidImage = 200,
  kInvalidContext = 201,
  kNoBinaryForGpu = 209,
  kOperatingSystem = 304,
  kNotFound = 500,
  kNotReady = 600,
  kIllegalAddress = 700,
  kLaunchOutOfResources = 701,
  kLaunchTimeout = 702,
  kAssert = 710,
  kHardwareStackError = 714,
  kIllegalInstruction = 715,
  kMisalignedAddress = 716,
  kInvalidAddressSpace = 717,
  kInvalidPc = 718,
  kLaunchFailed = 719,
  kCooperativeLaunchTooLarge = 720,
  kNotSupported = 801,
  kSystemDriverMismatch = 803,
  kInvalidClusterSize = 912,
};

enum DeviceAttribute : int {
  kMultiprocessorCount = 16,
  kL2CacheSize = 38,
  kComputeCapabilityMajor = 75,
  kComputeCapabilityMinor = 76,
  kPageableMemoryAccess = 88,
  kMaxSharedMemoryPerBlockOptin = 97,
};

enum FunctionAttribute : int {
  kMaxThreadsPerBlock = 0,
  kSharedSizeBytes = 1,
  kLocalSizeBytes = 3,
  kNumRegisters = 4,
  kMaxDynamicSharedSizeBytes = 8,
  kNonPortableClusterSizeAllowed = 14,
};

inline constexpr int kAllocationPinned = 1;
inline constexpr int kLocationDevice = 1;
inline constexpr int kHandleNone = 0;
inline constexpr int kHandlePosixDescriptor = 1;
inline constexpr int kGranularityMinimum = 0;
inline constexpr int kAccessRead = 1;
inline constexpr int kAccessReadWrite = 3;

inline constexpr unsigned kHostAllocPortable = 1;
inline constexpr unsigned kHostAllocDeviceMap = 2;
/// Wait until (int32)(*address - value) >= 0, which lets the value wrap around.
inline constexpr unsigned kWaitValueGeq = 0;
inline constexpr unsigned kEventDefault = 0;
inline constexpr unsigned kEventDisableTiming = 2;

struct MemoryLocation {
  int type = kLocationDevice;
  int id = 0;
};
static_assert(sizeof(MemoryLocation) == 8);

struct AllocationProperties {
  int type = kAllocationPinned;
  int handle_types = kHandlePosixDescriptor;
  MemoryLocation location;
  void* win32_metadata = nullptr;
  unsigned char compression = 0;
  unsigned char gpu_direct_rdma = 0;
  unsigned short usage = 0;
  unsigned char reserved[4] = {};
};
static_assert(sizeof(AllocationProperties) == 32);
static_assert(offsetof(AllocationProperties, handle_types) == 4);
static_assert(offsetof(AllocationProperties, location) == 8);
static_assert(offsetof(AllocationProperties, win32_metadata) == 16);
static_assert(offsetof(AllocationProperties, compression) == 24);
static_assert(offsetof(AllocationProperties, usage) == 26);

struct AccessDescription {
  MemoryLocation location;
  int flags = 0;
};
static_assert(sizeof(AccessDescription) == 12);
static_assert(offsetof(AccessDescription, flags) == 8);

struct Uuid {
  unsigned char bytes[16];
};
static_assert(sizeof(Uuid) == 16);

inline constexpr int kLaunchCooperative = 2;
inline constexpr int kLaunchClusterDimension = 4;
inline constexpr int kLaunchClusterScheduling = 5;
inline constexpr int kClusterSchedulingSpread = 1;

struct LaunchAttribute {
  int id = 0;
  char pad[4] = {};
  union alignas(8) Value {
    char bytes[64] = {};
    int number;
    unsigned cluster[3];
  } value;
};
static_assert(sizeof(LaunchAttribute) == 72);
static_assert(offsetof(LaunchAttribute, value) == 8);

struct LaunchConfig {
  unsigned grid[3] = {1, 1, 1};
  unsigned block[3] = {1, 1, 1};
  unsigned shared_bytes = 0;
  Stream stream = nullptr;
  LaunchAttribute* attributes = nullptr;
  unsigned attribute_count = 0;
};
static_assert(sizeof(LaunchConfig) == 56);
static_assert(offsetof(LaunchConfig, block) == 12);
static_assert(offsetof(LaunchConfig, shared_bytes) == 24);
static_assert(offsetof(LaunchConfig, stream) == 32);
static_assert(offsetof(LaunchConfig, attributes) == 40);
static_assert(offsetof(LaunchConfig, attribute_count) == 48);

/// A kernel's argument for a tensor descriptor: opaque, made by the driver.
struct alignas(64) TensorMap {
  std::uint64_t words[16] = {};
};
static_assert(sizeof(TensorMap) == 128);
inline constexpr int kInterleaveNone = 0;
inline constexpr int kPromote128Bytes = 2;
inline constexpr int kFillZero = 0;
inline constexpr int kFillNan = 1;

}  // namespace warpsmith::cuda
