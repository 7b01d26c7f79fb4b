// Calls on arrays in a device's memory that are like earlier ones: one native call up to the launch.
#include <cstring>

#include "bindings/device.h"
#include "bindings/group_object.h"
#include "bindings/repeated_calls.h"
#include "device/launcher.h"

using namespace nb::literals;

namespace {

using ringtree::device::Call;
using ringtree::device::Launch;
using ringtree::device::Launcher;
using ringtree::device::LaunchKernel;
using ringtree::device::Status;

// A plan that calls are remembered for. Without a launch of it that has been made, nothing is launched again.
struct DevicePlan {
  int number;
  bool launched = false;
  Launch launch{};
  std::shared_ptr<ringtree::PreparedProgram> announced{};
  nb::object text{};
  std::uint64_t runs = 0;
};

// A thread in a call that the host's group, if there is one, knows of.
class WithinCall {
 public:
  WithinCall(GroupObject* host, const DevicePlan& plan) : host_(host) {
    if (host_) host_->group().enter_call(*plan.announced);
  }
  ~WithinCall() {
    if (host_) host_->group().leave_call();
  }
  WithinCall(const WithinCall&) = delete;
  WithinCall& operator=(const WithinCall&) = delete;

 private:
  GroupObject* host_;
};

class DeviceCalls {
 public:
  using Plan = DevicePlan;

  DeviceCalls(int ranks, std::uintptr_t status, int device, std::uintptr_t launch_kernel)
      : ranks_(ranks),
        device_(device),
        launcher_(reinterpret_cast<const Status*>(status), reinterpret_cast<LaunchKernel>(launch_kernel)) {
    if (device != on_host && !launch_kernel) throw std::invalid_argument("no function that launches on a device");
  }

  // As bindings/repeated_calls.h asks it of an endpoint.
  int device() const { return device_; }
  int ranks() const { return ranks_; }
  bool ready() const { return known_launches_ > 0 && queued_ == 0 && !launcher_.has_failed(); }
  std::shared_ptr<DevicePlan> recall(const ringtree::CallSignature& signature, ringtree::Bytes x, ringtree::Bytes out,
                                     std::int64_t itemsize) const {
    return known_.find(signature, x, out, itemsize);
  }
  bool perform(const std::shared_ptr<DevicePlan>& plan, std::byte* x, std::byte* out) {
    void* stream = nullptr;
    if (!plan->launched || !on_stream(stream)) return false;
    WithinCall within(host_, *plan);
    std::unique_lock turn(turn_, std::try_to_lock);
    if (!turn || !ready()) return false;
    if (host_) host_->group().announce(plan->announced);
    auto call = launcher_.call_on(plan->launch, reinterpret_cast<std::uint8_t*>(x),
                                  reinterpret_cast<std::uint8_t*>(out), limit_ns_);
    // A launch may wait for room behind a call that waits for a peer, whose death another thread of Python sees.
    bool may_wait = launcher_.waits() || !launcher_.idle();
    text_ = plan->text;
    launcher_.count_launches(launcher_.launches() + 1);
    bool made = run(*plan, call, stream, may_wait);
    if (!made) launcher_.count_launches(launcher_.launches() - 1);
    if (!made || (launcher_.waits() && launcher_.has_failed())) return false;
    plan->runs++;
    runs_++;
    return true;
  }

  // Runs on this machine's processor what Python has made.
  void run_first(nb::bytes given, int announced) {
    DevicePlan plan{0};
    if (host_) plan.announced = host_->find(announced);
    Call call = call_of(given);
    launcher_.count_launches(launcher_.launches() + 1);
    run(plan, call, nullptr, true);
  }

  void attach(nb::handle_t<GroupObject> host) {
    kept_host_ = nb::borrow(host);
    host_ = nb::inst_ptr<GroupObject>(kept_host_);
  }

  void remember(int collective, const std::string& format, int dtype, const std::string& op, int root,
                Py_ssize_t in_count, Py_ssize_t out_count, int number, std::optional<Py_ssize_t> offset) {
    auto& plan = plan_at(number);
    ringtree::CallSignature signature{collective, ringtree::form_of(format.c_str()), op, root, in_count, out_count};
    if (signature.form) known_.remember(signature, plan, offset);
    signature.form = ringtree::form_of(dtype);
    known_.remember(signature, plan, offset);
  }

  void launched(int number, nb::bytes given, std::uintptr_t kernel, unsigned threads, std::int64_t input_bytes,
                std::int64_t output_bytes, nb::object text, int announced) {
    Call call = call_of(given);
    auto& plan = plan_at(number);
    known_launches_ += !plan->launched;
    plan->launched = true;
    plan->launch = {call, reinterpret_cast<void*>(kernel), threads, input_bytes, output_bytes};
    plan->text = std::move(text);
    if (host_) plan->announced = host_->find(announced);
  }

  void forget(int number) {
    auto found = plans_.find(number);
    if (found == plans_.end()) return;
    known_launches_ -= found->second->launched;
    found->second->launched = false;
    known_.forget(found->second);
    plans_.erase(found);
  }

  nb::list taken_runs() {
    nb::list found;
    for (auto& [number, plan] : plans_)
      if (auto runs = std::exchange(plan->runs, 0)) found.append(nb::make_tuple(number, runs));
    return found;
  }

  void enter() {
    for (;;) {
      if (turn_.try_lock()) return;
      {
        nb::gil_scoped_release free;
        if (turn_.try_lock_for(std::chrono::milliseconds(50))) return;
      }
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
    }
  }
  void exit() { turn_.unlock(); }

  void close() {
    for (auto& [number, plan] : plans_) plan->launched = false;
    known_launches_ = 0;
    plans_.clear();
    known_ = {};
    launcher_.end_awaiting();
  }

  Launcher& launcher() { return launcher_; }
  std::uint64_t limit_ns_ = 0;
  std::uintptr_t stream_ = 0;  // the one of the last launch
  int queued_ = 0;
  std::uint64_t runs_ = 0;
  nb::object text_ = nb::str("");

 private:
  static Call call_of(nb::bytes given) {
    Call call;
    if (given.size() != sizeof call) throw nb::value_error("a call of another size");
    std::memcpy(&call, given.data(), sizeof call);
    return call;
  }

  // Launches a call that is counted. An error of a signal's handler in a wait fails the group.
  bool run(const DevicePlan& plan, Call& call, void* stream, bool may_wait) {
    std::optional<PythonHooks> hooks;
    host_ ? hooks.emplace(host_->group()) : hooks.emplace();
    if (may_wait) hooks->blocking();
    try {
      return launcher_.launch(plan.launch, call, stream, *hooks);
    } catch (const ringtree::Interrupted&) {
      if (host_) host_->group().report_interrupt(*plan.announced);
      throw;
    }
  }

  std::shared_ptr<DevicePlan>& plan_at(int number) {
    auto& plan = plans_[number];
    if (!plan) plan = std::make_shared<DevicePlan>(DevicePlan{number});
    return plan;
  }

  // Whether the caller's stream is that of the last launch: then its order is that of the calls.
  bool on_stream(void*& stream) const {
    if (device_ == on_host) return true;
    return torch_abi::current_stream(device_, &stream) && reinterpret_cast<std::uintptr_t>(stream) == stream_;
  }

  int ranks_, device_;
  nb::object kept_host_{};
  GroupObject* host_ = nullptr;  // where calls are announced, if anywhere
  Launcher launcher_;
  std::recursive_timed_mutex turn_;
  int known_launches_ = 0;
  std::unordered_map<int, std::shared_ptr<DevicePlan>> plans_;
  ringtree::FastPath<DevicePlan> known_;
};

// DeviceCalls.start_call: a launch is no call that has ended, and the mark behind it is Python's to make.
long start_call(DeviceCalls&, PyObject* const*) {
  return 0;
}

// DeviceCalls.find_at: as call_at; the number of the plan that serves, 0 where none does.
long find_at(DeviceCalls& calls, PyObject* const* args) {
  auto plan = repeated_calls::by_address(calls, args).plan;
  return plan ? plan->number : 0;
}

// The fast path of a group on the host, beside which there is one on a device: for whichever the arrays are.
class DeviceDoor {
 public:
  DeviceDoor(nb::object host, nb::object device)
      : host_(std::move(host)),
        device_(std::move(device)),
        group_(nb::inst_ptr<GroupObject>(host_)),
        calls_(nb::inst_ptr<DeviceCalls>(device_)) {}

  template <auto on_group, auto on_device>
  static auto take(DeviceDoor& door, PyObject* const* args) {
    return on_cuda(args[1] == Py_None ? args[2] : args[1]) ? on_device(*door.calls_, args)
                                                           : on_group(*door.group_, args);
  }

 private:
  nb::object host_, device_;
  GroupObject* group_;
  DeviceCalls* calls_;
};

using repeated_calls::fast_definition;

constexpr auto group_call = repeated_calls::call<GroupObject>;
constexpr auto group_call_shaped = repeated_calls::call_shaped<GroupObject>;
constexpr auto device_call = repeated_calls::call<DeviceCalls>;
constexpr auto device_call_shaped = repeated_calls::call_shaped<DeviceCalls>;

PyMethodDef of_calls[] = {fast_definition<DeviceCalls, device_call, 5>("call"),
                          fast_definition<DeviceCalls, device_call_shaped, 6>("call_shaped"),
                          fast_definition<DeviceCalls, start_call, 5>("start_call"),
                          fast_definition<DeviceCalls, find_at, 8>("find_at")};
PyMethodDef of_door[] = {
    fast_definition<DeviceDoor, DeviceDoor::take<group_call, device_call>, 5>("call"),
    fast_definition<DeviceDoor, DeviceDoor::take<group_call_shaped, device_call_shaped>, 6>("call_shaped"),
    fast_definition<DeviceDoor, DeviceDoor::take<repeated_calls::start_call, start_call>, 5>("start_call")};

}  // namespace

void bind_device_calls(nb::module_& m) {
  auto calls =
      nb::class_<DeviceCalls>(m, "DeviceCalls")
          .def(nb::init<int, std::uintptr_t, int, std::uintptr_t>(), "ranks"_a, "status"_a, "device"_a = on_host,
               "launch_kernel"_a = 0)
          .def("remember", &DeviceCalls::remember, "collective"_a, "format"_a, "dtype"_a, "op"_a, "root"_a,
               "in_count"_a, "out_count"_a, "plan"_a, "offset"_a.none() = 0)
          .def("launched", &DeviceCalls::launched, "plan"_a, "call"_a, "kernel"_a, "threads"_a, "input_bytes"_a,
               "output_bytes"_a, "text"_a, "announced"_a = -1)
          .def("attach", &DeviceCalls::attach, "host"_a)
          .def("run_first", &DeviceCalls::run_first, "call"_a, "announced"_a)
          .def("forget", &DeviceCalls::forget, "plan"_a)
          .def("taken_runs", &DeviceCalls::taken_runs)
          .def(
              "add_region",
              [](DeviceCalls& c, std::uint64_t begin, std::uint64_t end, std::int64_t number) {
                c.launcher().add_region(begin, end, number);
              },
              "begin"_a, "end"_a, "number"_a)
          .def(
              "place", [](DeviceCalls& c, std::uint64_t address) { return c.launcher().place(address); }, "address"_a)
          .def("__enter__", &DeviceCalls::enter)
          .def("__exit__", [](DeviceCalls& c, nb::args) { c.exit(); })
          .def(
              "queue", [](DeviceCalls& c, int calls) { c.queued_ += calls; }, "calls"_a)
          .def_ro("queued", &DeviceCalls::queued_)
          .def("await_launch",
               [](DeviceCalls& c) {
                 nb::gil_scoped_release free;
                 c.launcher().await_launch();
               })
          .def("end_awaiting", [](DeviceCalls& c) { c.launcher().end_awaiting(); })
          .def_prop_rw(
              "launches", [](DeviceCalls& c) { return c.launcher().launches(); },
              [](DeviceCalls& c, std::uint64_t launches) { c.launcher().count_launches(launches); })
          .def_prop_rw(
              "stopped", [](DeviceCalls& c) { return c.launcher().stopped(); },
              [](DeviceCalls& c, bool) { c.launcher().stop(); })
          .def_prop_ro("ended", [](DeviceCalls& c) { return c.launcher().ended(); })
          .def_prop_ro("idle", [](DeviceCalls& c) { return c.launcher().idle(); })
          .def_rw("limit_ns", &DeviceCalls::limit_ns_)
          .def_rw("stream", &DeviceCalls::stream_)
          .def_rw("text", &DeviceCalls::text_)
          .def_ro("runs", &DeviceCalls::runs_)
          .def("close", &DeviceCalls::close);
  for (auto& definition : of_calls) add_fast_method(calls, definition);
  auto door = nb::class_<DeviceDoor>(m, "DeviceDoor")
                  .def(
                      "__init__",
                      [](DeviceDoor* door, nb::handle_t<GroupObject> host, nb::handle_t<DeviceCalls> device) {
                        new (door) DeviceDoor(nb::borrow(host), nb::borrow(device));
                      },
                      "host"_a, "device"_a);
  for (auto& definition : of_door) add_fast_method(door, definition);
}
