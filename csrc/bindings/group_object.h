// A rank's endpoint in a group as Python sees it: the group, and the plans by their numbers.
#pragma once

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "bindings/bindings.h"
#include "bindings/tensors.h"
#include "interpreter/fast_path.h"

class GroupObject {
 public:
  using Plan = ringtree::PreparedProgram;

  GroupObject(int fd, int rank, int ranks, int slots, std::size_t slot_bytes, double timeout_s, bool oversubscribed,
              bool threads, std::vector<std::string> names, std::size_t single_copy_bytes,
              const ringtree::InheritedLiveness* inherited, const ringtree::Network* network, std::vector<int> nodes,
              std::vector<int> cores, double warn_share, double warn_least_s,
              const std::vector<std::vector<std::uint64_t>>& processes, bool confirms, bool takes_turns)
      : group_(ringtree::FileDescriptor(fd), rank, ranks,
               {slots,
                slot_bytes,
                threads,
                {timeout_s,
                 oversubscribed,
                 std::move(names),
                 std::move(cores),
                 threads,
                 confirms,
                 false,
                 takes_turns,
                 {warn_share, warn_least_s}},
                inherited ? std::optional(*inherited) : std::nullopt,
                network ? std::optional(*network) : std::nullopt,
                std::move(nodes),
                identities(processes),
                ringtree::last_cache_bytes(),
                single_copy_bytes}) {}

  using Table = nb::ndarray<const std::int32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
  using Column = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

  int prepare(Table instructions, Table operands, Column sizes, Column input_offsets, Column output_offsets,
              std::int64_t scratch, std::int64_t window, int dtype, int op, std::string collective, int root,
              std::int64_t count, std::uint64_t digest, bool single_copy) {
    if (instructions.shape(1) != 7 || operands.shape(1) != 4)
      throw std::invalid_argument("instructions have 7 columns and operands 4");
    ringtree::Encoded program{
        {reinterpret_cast<const ringtree::Encoded::Instruction*>(instructions.data()), instructions.shape(0)},
        {reinterpret_cast<const ringtree::Encoded::Operand*>(operands.data()), operands.shape(0)}};
    ringtree::Binding binding{{sizes.data(), sizes.shape(0)},
                              {input_offsets.data(), input_offsets.shape(0)},
                              {output_offsets.data(), output_offsets.shape(0)},
                              scratch,
                              window,
                              dtype,
                              op,
                              root,
                              count,
                              static_cast<std::uint32_t>(digest ^ digest >> 32),
                              std::move(collective),
                              single_copy};
    plans_.emplace(prepared_, group_.prepare(program, binding));
    return prepared_++;
  }

  void forget(int plan) {
    known_.forget(find(plan));
    if (barrier_ == find(plan)) barrier_ = nullptr;
    plans_.erase(plan);
  }

  void run(int plan, std::uintptr_t input, std::uintptr_t output) {
    PythonHooks hooks(group_);
    run(find(plan), reinterpret_cast<std::byte*>(input), reinterpret_cast<std::byte*>(output), hooks);
  }

  double run_timed(int plan, std::uintptr_t input, std::uintptr_t output) {
    PythonHooks hooks(group_);
    ringtree::TimedWork timed(hooks);
    run(find(plan), reinterpret_cast<std::byte*>(input), reinterpret_cast<std::byte*>(output), hooks);
    return static_cast<double>(timed.ns()) * 1e-9;
  }

  std::uint64_t start(int plan, std::uintptr_t input, std::uintptr_t output) {
    return group_.start(find(plan), reinterpret_cast<std::byte*>(input), reinterpret_cast<std::byte*>(output));
  }

  std::uint64_t start_timed(int plan, std::uintptr_t input, std::uintptr_t output) {
    auto time = std::make_shared<ringtree::WorkTime>(-1);
    auto ticket =
        group_.start(find(plan), reinterpret_cast<std::byte*>(input), reinterpret_cast<std::byte*>(output), time);
    times_.emplace(ticket, std::move(time));
    return ticket;
  }

  std::optional<double> work_s(std::uint64_t ticket) {
    auto time = times_.find(ticket);
    if (time == times_.end()) return std::nullopt;
    auto ns = time->second->load(std::memory_order_acquire);
    if (ns < 0) return std::nullopt;
    times_.erase(time);
    return static_cast<double>(ns) * 1e-9;
  }

  // Also where close() has given the call up: who polls would never end.
  bool done(std::uint64_t ticket) const { return group_.done(ticket) || group_.over(); }

  bool wait(std::uint64_t ticket, double timeout_s) {
    PythonHooks hooks;  // another thread's call ends as the group does
    return group_.wait(ticket, timeout_s, hooks);
  }

  void remember(int collective, const std::string& format, int dtype, const std::string& op, int root,
                Py_ssize_t in_count, Py_ssize_t out_count, int plan, std::optional<Py_ssize_t> offset) {
    ringtree::CallSignature signature{collective, ringtree::form_of(format.c_str()), op, root, in_count, out_count};
    if (signature.form) known_.remember(signature, find(plan), offset);
    signature.form = ringtree::form_of(dtype);
    known_.remember(signature, find(plan), offset);
  }

  void remember_barrier(int plan) { barrier_ = find(plan); }

  bool call_barrier() {
    auto plan = barrier_;  // another thread may forget it meanwhile
    auto token = reinterpret_cast<std::byte*>(&token_);
    return plan && perform(plan, token, token);
  }

  // As bindings/repeated_calls.h asks it of an endpoint.
  static constexpr int device() { return on_host; }
  int ranks() { return group_.ranks(); }
  static constexpr bool ready() { return true; }
  std::shared_ptr<ringtree::PreparedProgram> recall(const ringtree::CallSignature& signature, ringtree::Bytes x,
                                                    ringtree::Bytes out, Py_ssize_t itemsize) const {
    return known_.find(signature, x, out, itemsize);
  }

  bool perform(const std::shared_ptr<ringtree::PreparedProgram>& plan, std::byte* input, std::byte* output) {
    PythonHooks hooks(group_);
    run(plan, input, output, hooks);
    return true;
  }

  void run(const std::shared_ptr<ringtree::PreparedProgram>& plan, std::byte* input, std::byte* output,
           PythonHooks& hooks) {
    if (group_.threads() || plan->moved_bytes > quick_bytes) hooks.blocking();
    group_.run(plan, input, output, hooks);
  }

  std::uintptr_t add_region(int fd, std::size_t nbytes, std::size_t offset, std::optional<std::size_t> reserved) {
    std::byte* base = nullptr;
    {
      PythonHooks hooks(group_);
      hooks.blocking();
      base = group_.add_region(fd, nbytes, reserved.value_or(nbytes), hooks);
    }
    regions_.push_back({base, nbytes});
    return reinterpret_cast<std::uintptr_t>(base) + offset;
  }

  bool in_region(std::uintptr_t address, std::size_t nbytes) const {
    return std::ranges::any_of(regions_, [&](const ringtree::Region& region) {
      auto base = reinterpret_cast<std::uintptr_t>(region.base);
      return base <= address && nbytes <= region.nbytes && address - base <= region.nbytes - nbytes;
    });
  }

  nb::tuple add_window(int fd, std::size_t nbytes) {
    std::byte* base = nullptr;
    try {
      PythonHooks hooks(group_);
      hooks.blocking();
      base = group_.add_shares(fd, nbytes, hooks);
    } catch (const std::system_error&) {
      group_.add_window(nullptr, 0);  // its number is the peers', too
      throw;
    }
    regions_.push_back({base, nbytes * group_.ranks()});
    auto window = group_.add_window(base, nbytes);
    return nb::make_tuple(window, reinterpret_cast<std::uintptr_t>(group_.in_window(window, group_.rank(), 0, nbytes)));
  }

  void prefault(std::uintptr_t address, std::size_t nbytes) const {
    PythonHooks hooks;
    hooks.blocking();
    ringtree::Mapping::prefault_large(reinterpret_cast<std::byte*>(address), nbytes);
  }

  nb::object counters() const {
    auto received = group_.received();
    auto table = new std::int64_t[received.size() * 2];
    for (std::size_t peer = 0; peer < received.size(); peer++) {
      table[2 * peer] = received[peer].bytes;
      table[2 * peer + 1] = received[peer].messages;
    }
    nb::capsule owner(table, [](void* p) noexcept { delete[] static_cast<std::int64_t*>(p); });
    return nb::cast(nb::ndarray<nb::numpy, std::int64_t, nb::ndim<2>>(table, {received.size(), 2}, owner));
  }

  nb::object known(std::uint64_t key) {
    auto [state, value] = group_.known(key);
    if (state == ringtree::Memo::State::published) return nb::bytes(value.data(), value.size());
    if (state == ringtree::Memo::State::full) return nb::none();
    return nb::bool_(state == ringtree::Memo::State::claimed_here);
  }
  int missing_claimant(std::uint64_t key) { return group_.missing_claimant(key); }
  bool publish(std::uint64_t key, nb::bytes value) {
    return group_.publish(key, {static_cast<const std::byte*>(value.data()), value.size()});
  }

  nb::list peers() {
    nb::list found;
    for (auto& peer : group_.peers()) found.append(nb::make_tuple(peer.state, peer.waits, peer.waited_s));
    return found;
  }

  ringtree::Group& group() { return group_; }
  void reset_counters() { group_.reset_received(); }
  ringtree::InheritedLiveness inherited(const std::vector<int>& ranks) const { return group_.inherited(ranks); }
  void check_liveness(const std::string& what, const std::vector<int>& ranks, const std::vector<int>& absent) {
    group_.check_liveness(what, ranks, absent);
  }
  int begin_wait(const std::string& what, int rank, double timeout_s) {
    return group_.begin_wait(what, rank, timeout_s);
  }
  void end_wait(int place, bool gave_up) const { group_.end_wait(place, gave_up); }
  std::string give_up(const std::string& text, const std::vector<int>& ranks) const {
    return group_.give_up(text, ranks);
  }
  void fail_if_bereft(const std::string& what) { group_.fail_if_bereft(what); }
  void poison(const std::string& message) { group_.poison(message); }
  void tell_cause(const std::string& text) { group_.tell_cause(text); }
  std::string failure() const { return group_.failure(); }
  void arrive(std::uint32_t turn, bool ready, const std::vector<int>& shunned) {
    group_.agreement().arrive(turn, ready, shunned);
  }
  nb::list arrivals() {
    nb::list found;
    for (auto& each : group_.agreement().arrivals()) found.append(nb::make_tuple(each.turn, each.ready, each.shunned));
    return found;
  }
  bool decide(std::uint32_t turn, bool made, std::vector<int> members) {
    return group_.agreement().decide({turn, made, std::move(members)});
  }
  nb::tuple decision() {
    auto last = group_.agreement().decision();
    return nb::make_tuple(last.turn, last.made, last.members);
  }
  std::uint64_t caller() const { return group_.caller(); }
  bool is_within_call() const { return PythonHooks::handles_within(group_); }
  void set_timeout(double seconds) { group_.set_timeout(seconds); }
  std::uint64_t calls() const { return group_.calls(); }
  int slots_open() const { return group_.slots_open(); }

  std::shared_ptr<ringtree::PreparedProgram> find(int plan) {
    auto found = plans_.find(plan);
    if (found == plans_.end())
      throw std::invalid_argument(plan < 0 || plan >= prepared_ ? "no plan " + std::to_string(plan) + ": " +
                                                                      std::to_string(prepared_) + " were prepared"
                                                                : "plan " + std::to_string(plan) + " was forgotten");
    return found->second;
  }

  // As of Group: calls that a device runs.
  void enter_call(int plan) { group_.enter_call(*find(plan)); }
  void announce(int plan) { group_.announce(find(plan)); }
  void leave_call() { group_.leave_call(); }
  void report_timeout(const std::string& text, const std::vector<int>& ranks) { group_.report_timeout(text, ranks); }
  void report_mismatch(const std::string& text) { group_.report_mismatch(text); }
  bool is_lost(const std::string& what, const std::vector<int>& ranks, const std::vector<int>& absent) {
    return group_.is_lost(what, ranks, absent);
  }

  void close() {
    nb::gil_scoped_release released;
    group_.close();
  }

 private:
  static std::vector<ringtree::ProcessIdentity> identities(const std::vector<std::vector<std::uint64_t>>& processes) {
    std::vector<ringtree::ProcessIdentity> all;
    for (auto& each : processes) {
      if (each.size() != 3) throw std::invalid_argument("a process is its id, its start and its pid namespace");
      all.push_back({static_cast<std::int32_t>(each[0]), each[1], each[2]});
    }
    return all;
  }

  ringtree::Group group_;
  std::vector<ringtree::Region> regions_;  // the GIL guards them, the plans and the times
  int prepared_ = 0;                       // numbers are not used again
  std::unordered_map<int, std::shared_ptr<ringtree::PreparedProgram>> plans_;
  std::unordered_map<std::uint64_t, std::shared_ptr<ringtree::WorkTime>> times_;  // by ticket
  ringtree::FastPath<ringtree::PreparedProgram> known_;
  std::shared_ptr<Plan> barrier_;
  std::int32_t token_ = 0;  // the element of a barrier
};
