// The Python interface of the device layer; _native.pyi declares its types.

#include "device_bindings.h"

#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "device/device.h"
#include "device/dlpack.h"
#include "device/driver.h"
#include "device/event.h"
#include "device/gate.h"
#include "device/kernel.h"
#include "device/memory.h"
#include "device/tensor_map.h"

namespace py = pybind11;

namespace warpsmith {
namespace {

using Released = py::call_guard<py::gil_scoped_release>;
using DevicePointer = std::shared_ptr<Device>;

void bind_devices(py::module_& module) {
  module.def("device_count", cuda::device_count);
  module.def("driver_untouched", cuda::driver_untouched);
  py::class_<Device, DevicePointer>(module, "Device", "A GPU and its primary context.", py::is_final())
      .def_static("open", &Device::open, py::arg("ordinal"), Released())
      .def_property_readonly("ordinal", &Device::ordinal)
      .def_property_readonly("name", &Device::name)
      .def_property_readonly("arch", &Device::arch)
      .def_property_readonly("total_bytes", &Device::total_bytes)
      .def_property_readonly("l2_bytes", &Device::l2_bytes)
      .def_property_readonly("multiprocessors", &Device::multiprocessors)
      .def_property_readonly("uuid", &Device::uuid)
      .def_property_readonly("pageable_memory_access", &Device::pageable_memory_access)
      .def_property_readonly("granularity", &Device::granularity)
      .def_property_readonly("block_shared_bytes", &Device::block_shared_bytes)
      .def("use", &Device::use)
      .def("free_bytes", &Device::free_bytes, Released())
      .def("synchronize", &Device::synchronize, Released());
}

// --- buffers ---

// Unmapping waits for the device, and in the driver for contexts of other processes: let other threads run
// meanwhile.
template <typename Deletion>
void without_gil(const Deletion& deletion) {
  if (Py_IsInitialized() != 0 && PyGILState_Check() != 0) {
    const py::gil_scoped_release released;
    deletion();
  } else {
    deletion();
  }
}

struct DeletedWithoutGil {
  void operator()(DeviceBuffer* buffer) const {
    without_gil([buffer] { delete buffer; });
  }
};

using BufferHolder = std::unique_ptr<DeviceBuffer, DeletedWithoutGil>;

// A consumer renames the capsule and then owns the tensor; an unconsumed one is deleted here.
void delete_capsule(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, dlpack::kCapsuleName) == 0) return;
  auto* tensor = static_cast<dlpack::ManagedTensor*>(PyCapsule_GetPointer(capsule, dlpack::kCapsuleName));
  tensor->deleter(tensor);
}

py::object capsule_of(dlpack::ManagedTensor* tensor) {
  tensor->deleter = [](dlpack::ManagedTensor* self) { without_gil([self] { dlpack::delete_tensor(self); }); };
  PyObject* capsule = PyCapsule_New(tensor, dlpack::kCapsuleName, delete_capsule);
  if (capsule != nullptr) return py::reinterpret_steal<py::object>(capsule);
  tensor->deleter(tensor);
  throw py::error_already_set();
}

py::object make_capsule(const DeviceBuffer& buffer, std::size_t start, std::optional<std::size_t> size) {
  if (start > buffer.size() || size.value_or(0) > buffer.size() - start)
    throw py::value_error("The part does not lie in the buffer.");
  return capsule_of(dlpack::make_tensor(buffer, start, size.value_or(buffer.size() - start)));
}

void bind_buffers(py::module_& module) {
  py::class_<DeviceBuffer, BufferHolder>(
      module, "DeviceBuffer", "Device memory that processes share by a descriptor.", py::is_final())
      .def_static(
          "create",
          [](const DevicePointer& device, std::size_t size, bool shareable) {
            return DeviceBuffer::create(device, size, shareable);
          },
          py::arg("device").none(false), py::arg("size"), py::arg("shareable") = true, Released())
      .def_static(
          "map",
          [](const DevicePointer& device, int fd, std::size_t size, bool writable) {
            return DeviceBuffer::map(device, fd, size, writable);
          },
          py::arg("device").none(false), py::arg("fd"), py::arg("size"), py::arg("writable") = false,
          Released())
      .def_property_readonly("size", &DeviceBuffer::size)
      .def_property_readonly("address", &DeviceBuffer::address)
      .def_property_readonly("writable", &DeviceBuffer::writable)
      .def("fileno", &DeviceBuffer::fd)
      .def("close", &DeviceBuffer::close_fd)
      .def("fill", &DeviceBuffer::fill, py::arg("byte"), Released())
      .def("alias", &DeviceBuffer::alias, py::arg("writable"), Released())
      .def("protect", &DeviceBuffer::protect, Released())
      .def("dlpack", make_capsule, py::arg("start") = 0, py::arg("size") = py::none());
}

// --- kernels ---

// A number is the first side; the others are 1.
using Sides = std::variant<unsigned, Extent>;

Extent extent_of(const Sides& sides) {
  const auto* first = std::get_if<unsigned>(&sides);
  return first != nullptr ? Extent{*first, 1, 1} : std::get<Extent>(sides);
}

LaunchShape make_shape(const Extent& grid, const Sides& threads, const Sides& cluster, bool cooperative) {
  return {grid, extent_of(threads), extent_of(cluster), cooperative};
}

using Parameters = std::vector<py::bytes>;

// Views into the objects of `parameters`, which outlives them.
std::vector<std::string_view> views_of(const Parameters& parameters) {
  return {parameters.begin(), parameters.end()};
}

std::unique_ptr<Launch> prepare(const Kernel& kernel, const Extent& grid, const Sides& threads,
                                const Sides& cluster, bool cooperative, const Parameters& parameters) {
  return kernel.prepare(make_shape(grid, threads, cluster, cooperative), views_of(parameters));
}

void launch(const Kernel& kernel, const Extent& grid, const Sides& threads, const Sides& cluster,
            bool cooperative, std::uintptr_t stream, const Parameters& parameters) {
  kernel.launch(make_shape(grid, threads, cluster, cooperative), stream, views_of(parameters));
}

py::bytes tensor_map(const DevicePointer& device, cuda::Address address, int element, unsigned item_bytes,
                     int swizzle, bool nan_outside, std::vector<std::uint64_t> shape,
                     std::vector<std::uint64_t> strides, std::vector<std::uint32_t> block) {
  const Tiling tiling{address,     element,          item_bytes,         swizzle,
                      nan_outside, std::move(shape), std::move(strides), std::move(block)};
  return encode_tensor_map(*device, tiling);
}

void bind_kernels(py::module_& module) {
  module.def("encode_tensor_map", tensor_map, py::arg("device").none(false), py::arg("address"),
             py::arg("element"), py::arg("item_bytes"), py::arg("swizzle"), py::arg("nan_outside"),
             py::arg("shape"), py::arg("strides"), py::arg("block"));
  using ModulePointer = std::shared_ptr<LoadedModule>;
  py::class_<LoadedModule, ModulePointer>(module, "Module", "A cubin, loaded on a device.", py::is_final())
      .def_static(
          "load",
          [](const DevicePointer& device, const py::bytes& cubin) {
            return std::const_pointer_cast<LoadedModule>(LoadedModule::load(device, cubin));
          },
          py::arg("device").none(false), py::arg("cubin"))
      .def(
          "kernel",
          [](const ModulePointer& self, const std::string& name, unsigned shared_bytes) {
            const CurrentContext current(self->device());
            return Kernel(self, name, shared_bytes);
          },
          py::arg("name"), py::arg("shared_bytes"))
      .def(
          "variable",
          [](const ModulePointer& self, const std::string& name) {
            return capsule_of(dlpack::make_tensor(self, self->variable(name)));
          },
          py::arg("name"));
  py::class_<Launch>(module, "Launch", "A kernel with all its arguments but the stream.", py::is_final())
      .def("launch", &Launch::launch, py::arg("stream"));
  py::class_<Kernel>(module, "Kernel", "One kernel of a cubin, loaded on a device.", py::is_final())
      .def_static(
          "load",
          [](const DevicePointer& device, const py::bytes& cubin, const std::string& name,
             unsigned shared_bytes) { return Kernel::load(device, cubin, name, shared_bytes); },
          py::arg("device").none(false), py::arg("cubin"), py::arg("name"), py::arg("shared_bytes"))
      .def_property_readonly("name", &Kernel::name)
      .def_property_readonly("registers", &Kernel::registers)
      .def_property_readonly("local_bytes", &Kernel::local_bytes)
      .def_property_readonly("max_threads", &Kernel::max_threads)
      .def("prepare", prepare, py::arg("grid"), py::arg("threads"), py::arg("cluster"),
           py::arg("cooperative"), py::arg("parameters"))
      .def("launch", launch, py::arg("grid"), py::arg("threads"), py::arg("cluster"), py::arg("cooperative"),
           py::arg("stream"), py::arg("parameters"));
}

// --- streams ---

void bind_streams(py::module_& module) {
  py::class_<Gate>(module, "Gate", "Holds a stream back until the host opens it.", py::is_final())
      .def(py::init([](const DevicePointer& device) { return std::make_unique<Gate>(device); }),
           py::arg("device").none(false))
      .def("close", &Gate::close, py::arg("stream"), py::arg("seconds") = 10.0, Released())
      .def("open", &Gate::open);
  py::class_<Event>(module, "Event", "A point of a stream.", py::is_final())
      .def(py::init([](const DevicePointer& device) { return std::make_unique<Event>(device); }),
           py::arg("device").none(false))
      .def("record", &Event::record, py::arg("stream"))
      .def("done", &Event::done)
      .def("synchronize", &Event::synchronize, Released())
      .def("elapsed_ms", &Event::elapsed_ms, py::arg("start"));
}

}  // namespace

void bind_device(py::module_& module) {
  bind_devices(module);
  bind_buffers(module);
  bind_kernels(module);
  bind_streams(module);
}

}  // namespace warpsmith
