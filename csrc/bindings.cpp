// The Python interface of the extension; _native.pyi declares its types.

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <signal.h>

#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "core/deadline.h"
#include "core/failure.h"
#include "device_bindings.h"
#include "protocol/buffer.h"
#include "protocol/channel.h"
#include "sandbox/cgroup.h"
#include "sandbox/policy.h"
#include "sandbox/probe.h"
#include "sandbox/process.h"
#include "sandbox/seccomp.h"
#include "sandbox/spawn.h"

namespace py = pybind11;

namespace warpsmith {
namespace {

constexpr const char* kModule = "warpsmith.evaluator._native";

// --- errors ---

struct ErrorTypes {
  py::object native, frame, peer_closed, deadline;
};

// Set once when the module is initialised, and read by the translator, which has no context argument.
py::gil_safe_call_once_and_store<ErrorTypes>& error_types() {
  static py::gil_safe_call_once_and_store<ErrorTypes> types;
  return types;
}

py::object new_error(const char* name, const py::object& base, const char* doc) {
  py::dict body;
  body["__module__"] = kModule;
  body["__doc__"] = doc;
  body["layer"] = "";
  body["operation"] = "";
  body["errno"] = 0;
  const auto type = py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(&PyType_Type));
  return type(name, py::make_tuple(base), body);
}

ErrorTypes make_error_types() {
  const py::object root = py::module_::import("warpsmith.records.errors").attr("WarpsmithError");
  const py::object native = new_error("NativeError", root, "A system call or a sandbox layer failed.");
  return {native, new_error("FrameError", native, "The peer sent bytes that are not a frame."),
          new_error("PeerClosed", native, "The peer closed the channel or died."),
          new_error("DeadlineExceeded", native, "The wait passed its deadline.")};
}

const py::object& error_type(FailureKind kind) {
  const ErrorTypes& types = error_types().get_stored();
  switch (kind) {
    case FailureKind::kFrame:
      return types.frame;
    case FailureKind::kPeerClosed:
      return types.peer_closed;
    case FailureKind::kDeadline:
      return types.deadline;
    case FailureKind::kNative:
      break;
  }
  return types.native;
}

void raise_in_python(const Failure& failure) {
  const py::object& type = error_type(failure.kind);
  py::object error = type(failure.message, failure.remedy);
  error.attr("layer") = failure.layer;
  error.attr("operation") = failure.operation;
  error.attr("errno") = failure.error;
  PyErr_SetObject(type.ptr(), error.ptr());
}

// Waits run without the GIL; a signal's Python handler needs it, and can end the wait by raising.
void check_signals() {
  const py::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
}

// --- named tuples ---

struct TupleTypes {
  py::object frame, bind, layer, spawned, in_child, exit, cgroup_events;
};

py::gil_safe_call_once_and_store<TupleTypes>& tuple_types() {
  static py::gil_safe_call_once_and_store<TupleTypes> types;
  return types;
}

py::object new_tuple(const char* name, const char* fields, py::tuple defaults = py::tuple()) {
  return py::module_::import("collections")
      .attr("namedtuple")(name, fields, py::arg("defaults") = defaults, py::arg("module") = kModule);
}

TupleTypes make_tuple_types() {
  return {new_tuple("Frame", "kind payload fds"),
          new_tuple("Bind", "source target writable", py::make_tuple(false)),
          new_tuple("Layer", "name available detail remedy"),
          new_tuple("Spawned", "pid pidfd output_fd tier cgroup"),
          new_tuple("InChild", "fd tier"),
          new_tuple("Exit", "code signal"),
          new_tuple("CgroupEvents", "limit_reached killed")};
}

// --- frames ---

// A contiguous view of any object with the buffer protocol, released with this object.
class ByteView {
 public:
  explicit ByteView(const py::object& object) {
    if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_SIMPLE) != 0) throw py::error_already_set();
  }
  ByteView(const ByteView&) = delete;
  ByteView& operator=(const ByteView&) = delete;
  ~ByteView() { PyBuffer_Release(&view_); }

  std::span<const std::byte> bytes() const {
    return {static_cast<const std::byte*>(view_.buf), static_cast<std::size_t>(view_.len)};
  }

 private:
  Py_buffer view_{};
};

void channel_send(Channel& channel, std::uint16_t kind, const py::object& payload,
                  const std::vector<int>& fds, std::optional<double> timeout_s) {
  const ByteView view(payload);
  const Deadline deadline = Deadline::after(timeout_s);
  const py::gil_scoped_release released;
  channel.send(kind, view.bytes(), fds, deadline, check_signals);
}

Frame receive_released(Channel& channel, std::optional<double> timeout_s) {
  const Deadline deadline = Deadline::after(timeout_s);
  const py::gil_scoped_release released;
  return channel.recv(deadline, check_signals);
}

py::object channel_recv(Channel& channel, std::optional<double> timeout_s) {
  Frame frame = receive_released(channel, timeout_s);
  const py::bytes payload(reinterpret_cast<const char*>(frame.payload.get()), frame.length);
  py::list fds(frame.fds.size());
  for (std::size_t i = 0; i < frame.fds.size(); ++i) fds[i] = frame.fds[i].get();
  py::object result = tuple_types().get_stored().frame(frame.kind, payload, fds);
  for (UniqueFd& fd : frame.fds) fd.release();
  return result;
}

py::tuple channel_pair() {
  auto [ours, theirs] = Channel::pair();
  auto channel = std::make_unique<Channel>(std::move(ours));
  return py::make_tuple(py::cast(std::move(channel)), theirs.release());
}

void bind_channel(py::module_& module) {
  py::class_<Channel>(module, "Channel",
                      "One end of a Unix stream socket that carries checked binary frames and descriptors.",
                      py::is_final())
      .def(py::init([](int fd) { return std::make_unique<Channel>(UniqueFd(fd)); }), py::arg("fd"))
      .def_static("pair", channel_pair)
      .def("send", channel_send, py::arg("kind"), py::arg("payload"), py::arg("fds") = py::tuple(),
           py::arg("timeout_s") = py::none())
      .def("recv", channel_recv, py::arg("timeout_s") = py::none())
      .def("fileno", &Channel::fd)
      .def("close", &Channel::close);
}

// --- buffers ---

int export_buffer(PyObject* self, Py_buffer* view, int flags) {
  const auto* buffer = py::cast<const Buffer*>(py::handle(self));
  return PyBuffer_FillInfo(view, self, buffer->address(), static_cast<Py_ssize_t>(buffer->size()),
                           buffer->writable() ? 0 : 1, flags);
}

// pybind11's buffer support does not distinguish a view's life from the object's; CPython's does.
void install_buffer_protocol(PyHeapTypeObject* type) {
  type->as_buffer.bf_getbuffer = export_buffer;
  type->as_buffer.bf_releasebuffer = nullptr;
  type->ht_type.tp_as_buffer = &type->as_buffer;
}

void bind_buffer(py::module_& module) {
  py::class_<Buffer>(module, "Buffer", "A sealed memfd mapped into this process.",
                     py::custom_type_setup(install_buffer_protocol), py::is_final())
      .def_static("create", &Buffer::create, py::arg("name"), py::arg("size"),
                  py::arg("writable_by_peer") = false)
      .def_static("map", &Buffer::map, py::arg("fd"), py::arg("size"), py::arg("writable") = false)
      .def_property_readonly("size", &Buffer::size)
      .def_property_readonly(
          "address", [](const Buffer& buffer) { return reinterpret_cast<std::uintptr_t>(buffer.address()); })
      .def_property_readonly("writable", &Buffer::writable)
      .def("fileno", &Buffer::fd)
      .def("fill", &Buffer::fill, py::arg("byte"), py::call_guard<py::gil_scoped_release>())
      .def("close", &Buffer::close_fd);
}

// --- policy ---

using BindTuple = std::tuple<std::string, std::string, bool>;

std::vector<Bind> binds_from(const py::iterable& entries) {
  std::vector<Bind> binds;
  for (const py::handle entry : entries) {
    auto [source, target, writable] = py::cast<BindTuple>(entry);
    binds.push_back({std::move(source), std::move(target), writable});
  }
  return binds;
}

py::list binds_to(const Policy& policy) {
  py::list entries;
  for (const Bind& bind : policy.binds)
    entries.append(tuple_types().get_stored().bind(bind.source, bind.target, bind.writable));
  return entries;
}

void bind_policy(py::module_& module) {
  const Policy safe;
  py::class_<Policy>(module, "Policy", "What a worker may see and use; every field has a safe default.",
                     py::is_final())
      .def(
          py::init([](const py::iterable& binds, std::vector<std::string> exec_paths,
                      std::map<std::string, std::string> environment, std::string scratch_path,
                      bool scratch_executable, bool shared_memory, bool dumpable, std::uint64_t scratch_bytes,
                      std::uint64_t scratch_inodes, std::uint64_t memory_bytes, std::uint64_t data_bytes,
                      std::uint64_t address_space_bytes, std::uint64_t processes, std::uint64_t open_files,
                      std::uint64_t file_bytes, std::uint64_t cpu_seconds, std::uint64_t output_bytes,
                      const std::string& strongest_tier, const std::string& minimum_tier) {
            Policy policy{binds_from(binds),
                          std::move(exec_paths),
                          std::move(environment),
                          std::move(scratch_path),
                          scratch_executable,
                          shared_memory,
                          dumpable,
                          scratch_bytes,
                          scratch_inodes,
                          memory_bytes,
                          data_bytes,
                          address_space_bytes,
                          processes,
                          open_files,
                          file_bytes,
                          cpu_seconds,
                          output_bytes,
                          tier_from(strongest_tier),
                          tier_from(minimum_tier)};
            policy.validate();
            return policy;
          }),
          py::kw_only(), py::arg("binds") = py::tuple(), py::arg("exec_paths") = py::tuple(),
          py::arg("environment") = py::dict(), py::arg("scratch_path") = safe.scratch_path,
          py::arg("scratch_executable") = safe.scratch_executable,
          py::arg("shared_memory") = safe.shared_memory, py::arg("dumpable") = safe.dumpable,
          py::arg("scratch_bytes") = safe.scratch_bytes, py::arg("scratch_inodes") = safe.scratch_inodes,
          py::arg("memory_bytes") = safe.memory_bytes, py::arg("data_bytes") = safe.data_bytes,
          py::arg("address_space_bytes") = safe.address_space_bytes, py::arg("processes") = safe.processes,
          py::arg("open_files") = safe.open_files, py::arg("file_bytes") = safe.file_bytes,
          py::arg("cpu_seconds") = safe.cpu_seconds, py::arg("output_bytes") = safe.output_bytes,
          py::arg("strongest_tier") = tier_name(safe.strongest_tier),
          py::arg("minimum_tier") = tier_name(safe.minimum_tier))
      .def_property_readonly("binds", binds_to)
      .def_readonly("exec_paths", &Policy::exec_paths)
      .def_readonly("environment", &Policy::environment)
      .def_readonly("scratch_path", &Policy::scratch_path)
      .def_readonly("scratch_executable", &Policy::scratch_executable)
      .def_readonly("shared_memory", &Policy::shared_memory)
      .def_readonly("dumpable", &Policy::dumpable)
      .def_readonly("scratch_bytes", &Policy::scratch_bytes)
      .def_readonly("scratch_inodes", &Policy::scratch_inodes)
      .def_readonly("memory_bytes", &Policy::memory_bytes)
      .def_readonly("data_bytes", &Policy::data_bytes)
      .def_readonly("address_space_bytes", &Policy::address_space_bytes)
      .def_readonly("processes", &Policy::processes)
      .def_readonly("open_files", &Policy::open_files)
      .def_readonly("file_bytes", &Policy::file_bytes)
      .def_readonly("cpu_seconds", &Policy::cpu_seconds)
      .def_readonly("output_bytes", &Policy::output_bytes)
      .def_property_readonly("strongest_tier",
                             [](const Policy& policy) { return tier_name(policy.strongest_tier); })
      .def_property_readonly("minimum_tier",
                             [](const Policy& policy) { return tier_name(policy.minimum_tier); });
}

// --- workers ---

// os.environ is a copy from Python's start; it would still show variables that the C environment has lost.
void replace_python_environment(const std::map<std::string, std::string>& variables) {
  py::object environment = py::module_::import("os").attr("environ");
  environment.attr("clear")();
  environment.attr("update")(variables);
}

py::object spawn_worker(const Policy& policy, int fd, Cgroups* cgroups) {
  const ForkHooks hooks{[] { PyOS_BeforeFork(); }, [] { PyOS_AfterFork_Parent(); }};
  SpawnResult result = spawn(policy, fd, hooks, cgroups);
  const TupleTypes& types = tuple_types().get_stored();
  if (!result.in_child())
    return types.spawned(result.pid, result.pidfd.release(), result.output.release(), tier_name(result.tier),
                         result.cgroup);
  replace_python_environment(policy.worker_environment(result.tier));
  PyOS_AfterFork_Child();
  return types.in_child(fd, tier_name(result.tier));
}

py::object wait_released(int pidfd, std::optional<double> timeout_s) {
  const Deadline deadline = Deadline::after(timeout_s);
  std::optional<Exit> exit;
  {
    const py::gil_scoped_release released;
    exit = wait_worker(pidfd, deadline, check_signals);
  }
  if (!exit) return py::none();
  const py::object& type = tuple_types().get_stored().exit;
  return exit->signaled ? type(py::none(), exit->value) : type(exit->value, py::none());
}

py::list probe_machine() {
  std::vector<Layer> layers;
  {
    const py::gil_scoped_release released;
    layers = probe_layers();
  }
  py::list result;
  for (const Layer& layer : layers)
    result.append(tuple_types().get_stored().layer(layer.name, layer.available, layer.detail, layer.remedy));
  return result;
}

py::list denied_system_calls() {
  py::list result;
  for (const Denied& call : denied_calls()) result.append(py::make_tuple(call.name, call.number, call.error));
  return result;
}

// --- cgroups ---

py::object remove_cgroup(Cgroups& cgroups, const std::string& name) {
  CgroupEvents events;
  {
    const py::gil_scoped_release released;
    events = cgroups.remove(name);
  }
  return tuple_types().get_stored().cgroup_events(events.limit_reached, events.killed);
}

void bind_cgroups(py::module_& module) {
  py::class_<Cgroups>(module, "Cgroups", "A process's own directory for the cgroups of its workers.",
                      py::is_final())
      .def_static("open", &Cgroups::open)
      .def_property_readonly("path", &Cgroups::path)
      .def_property_readonly("controllers", &Cgroups::controllers)
      .def("remove", remove_cgroup, py::arg("name"))
      .def("close", &Cgroups::close, py::call_guard<py::gil_scoped_release>());
}

void bind_workers(py::module_& module) {
  module.def("spawn", spawn_worker, py::arg("policy"), py::arg("fd"), py::arg("cgroups") = py::none());
  module.def("kill", kill_worker, py::arg("pidfd"));
  module.def("wait", wait_released, py::arg("pidfd"), py::arg("timeout_s") = py::none());
  module.def("probe", probe_machine);
  module.def("achievable_tier", [] { return tier_name(achievable_tier()); });
  module.def("denied_system_calls", denied_system_calls);
}

}  // namespace
}  // namespace warpsmith

PYBIND11_MODULE(_native, module) {
  using namespace warpsmith;
  module.doc() = "Sandbox, frames, buffers, process handles and devices of the evaluator.";
  const ErrorTypes& errors = error_types().call_once_and_store_result(make_error_types).get_stored();
  const TupleTypes& tuples = tuple_types().call_once_and_store_result(make_tuple_types).get_stored();
  py::register_exception_translator([](std::exception_ptr pointer) {
    try {
      if (pointer) std::rethrow_exception(pointer);
    } catch (const Failure& failure) {
      raise_in_python(failure);
    }
  });
  for (const py::object& type :
       {errors.native, errors.frame, errors.peer_closed, errors.deadline, tuples.frame, tuples.bind,
        tuples.layer, tuples.spawned, tuples.in_child, tuples.exit, tuples.cgroup_events})
    module.add_object(py::str(type.attr("__name__")).cast<std::string>().c_str(), type);
  module.attr("MAX_PAYLOAD_BYTES") = kMaxPayloadBytes;
  module.attr("MAX_FRAME_FDS") = kMaxFrameFds;
  bind_channel(module);
  bind_buffer(module);
  bind_policy(module);
  bind_cgroups(module);
  bind_workers(module);
  bind_device(module);
}
