#include "group/group.h"

#include <system_error>

#include "kernels/copies.h"
#include "memory/own_word.h"

namespace ringtree {

namespace {

constexpr std::size_t at_once_bytes = 32768;          // moved in less time than a thread takes to wake
constexpr std::int64_t last_wait_ns = 1'000'000'000;  // of one that closes, for peers that are not in its last call yet

// A number of this process, which no process has that was forked from it, nor the one that it was forked from.
std::uint64_t this_process() {
  static std::atomic<std::uint64_t> given = 0;  // a forked child finds what was given before it
  static OwnWord mine;
  return mine.get([] { return given.fetch_add(1, std::memory_order_relaxed) + 1; });
}

}  // namespace

Group::Group(FileDescriptor file, int rank, int ranks, Options options)
    : ranks_(ranks),
      threads_(options.threads),
      lazily_(options.inherited || options.network),
      nodes_(std::move(options.nodes)) {
  Layout layout(ranks, options.slots, options.slot_bytes);
  check_rank(rank);
  if (!nodes_.empty() && static_cast<int>(nodes_.size()) != ranks)
    throw std::invalid_argument(std::to_string(nodes_.size()) + " nodes of " + std::to_string(ranks) + " ranks");
  try {
    segment_ = std::make_unique<Segment>(file.fd(), layout, rank, lazily_, nodes_);
  } catch (const std::system_error& error) {
    auto& names = options.endpoint.names;
    auto name = rank < static_cast<int>(names.size()) ? names[rank] : std::to_string(rank);
    int number = options.inherited ? options.inherited->bytes.at(rank) : rank;
    report_failed_join(file.fd(), layout, rank, number, "rank " + name + " could not join the group: " + error.what());
    throw;
  }
  auto inherited = options.inherited
                       ? std::move(*options.inherited)
                       : InheritedLiveness::of_world(std::move(file), rank, ranks, layout.waits, !threads_);
  if (!options.inherited) {
    inherited.processes = std::move(options.processes);
    if (auto processes = inherited.processes.size(); processes && static_cast<int>(processes) != ranks)
      throw std::invalid_argument(std::to_string(processes) + " processes of " + std::to_string(ranks) + " ranks");
  }
  if (static_cast<int>(inherited.bytes.size()) != ranks)
    throw std::invalid_argument(std::to_string(inherited.bytes.size()) + " members in a group of " +
                                std::to_string(ranks));
  sit(rank, options, std::move(inherited));
}

Group::Group(void* memory, int rank, int ranks, Options options) : ranks_(ranks), threads_(true) {
  check_rank(rank);
  segment_ = std::make_unique<Segment>(memory, Layout(ranks, options.slots, options.slot_bytes));
  sit(rank, options, {});
}

void Group::check_rank(int rank) const {
  if (rank < 0 || rank >= ranks_)
    throw std::invalid_argument("rank " + std::to_string(rank) + " of " + std::to_string(ranks_));
}

void Group::sit(int rank, Options& options, InheritedLiveness inherited) {
  auto& names = options.endpoint.names;
  for (int r = static_cast<int>(names.size()); r < ranks_; r++) names.push_back(std::to_string(r));
  home_ = this_process();
  options.endpoint.threads = threads_;
  options.endpoint.made_from_another = options.inherited.has_value();
  endpoint_ = std::make_unique<Endpoint>(*segment_, rank, std::move(inherited), options.endpoint);
  if (options.network) {
    if (static_cast<int>(options.network->hosts.size()) != ranks_)
      throw std::invalid_argument(std::to_string(options.network->hosts.size()) + " hosts of " +
                                  std::to_string(ranks_) + " ranks");
    bridge_ = std::make_unique<Bridge>(*endpoint_, *options.network);
  }
  interpreter_ = std::make_unique<Interpreter>(*endpoint_, options.cache_bytes, options.single_copy_bytes);
  exchange_ = std::make_unique<Exchange>(*endpoint_);
  signals_ = std::make_unique<Signals>(*endpoint_);
  endpoint_->health().join_family(names);
}

Group::~Group() {
  leaves_by_error_ = true;  // nobody would hear of a mismatch, and the caller may hold a lock of the host
  try {
    close();
  } catch (...) {  // a caller that needs the error calls close()
  }
  if (at_home()) endpoint_->health().family().leave(endpoint_->health());
  // Memory is given back only now: arrays in it, and threads that leave it, keep this object until here.
  if (!at_home()) {  // their threads are the parent's
    (void)worker_.release();
    (void)exchange_.release();
    (void)bridge_.release();
  }
}

void Group::check_usable() const {
  if (!open_) throw endpoint_->health().closed();
  check_home();
  if (endpoint_->health().failed()) endpoint_->health().raise_failure();
}

bool Group::at_home() const {
  return home_ == this_process();
}

void Group::check_home() const {
  if (!at_home())
    throw Error(Failure::poisoned, -1,
                "this process was forked from " + endpoint_->name(endpoint_->rank()) +
                    " and has no endpoint in the group: only the parent may call it");
}

std::shared_ptr<PreparedProgram> Group::prepare(const Encoded& program, const Binding& binding) {
  check_usable();
  auto& layout = segment_->layout();
  return std::make_shared<PreparedProgram>(
      bind(program, binding,
           {endpoint_->rank(), ranks_, layout.slot_bytes, layout.overflow_bytes, layout.depth, !over_hosts()}));
}

void Group::run(const std::shared_ptr<PreparedProgram>& plan, std::byte* input, std::byte* output, Hooks& hooks) {
  check_usable();
  note_caller();
  auto before = worker_->issued();
  TicketLock::Ticket ticket(lock_);
  if (!worker_->done(before)) {
    check_outside(describe(plan->print, endpoint_->names()));
    worker_->wait(before, -1, hooks);
  }
  await(ticket, hooks, plan.get());
  struct InCall {
    explicit InCall(std::atomic<std::uint64_t>& thread) : thread(thread) {
      thread.store(static_cast<std::uint64_t>(pthread_self()), std::memory_order_relaxed);
    }
    ~InCall() { thread.store(0, std::memory_order_relaxed); }
    std::atomic<std::uint64_t>& thread;
  } in_call(in_call_);
  execute(plan, input, output, hooks);
}

void Group::execute(const std::shared_ptr<PreparedProgram>& plan, std::byte* input, std::byte* output, Hooks& hooks) {
  if (endpoint_->health().failed()) endpoint_->health().raise_failure();
  auto call = calls_.load(std::memory_order_relaxed) + 1;
  calls_.store(call, std::memory_order_relaxed);
  auto where = [&] { return std::string(collective_name(plan->print)) + ", call " + std::to_string(call); };
  try {
    interpreter_->run(plan, call, input, output, hooks);
  } catch (const Interrupted&) {
    endpoint_->health().report_failure(Failure::poisoned, -1,
                                       endpoint_->name(endpoint_->rank()) + " was interrupted in " + where());
    throw;
  } catch (const std::exception& error) {  // a call that ends half way leaves lanes that no call can use
    endpoint_->health().report_failure(
        Failure::poisoned, -1, endpoint_->name(endpoint_->rank()) + " failed in " + where() + ": " + error.what());
    throw;
  }
}

std::uint64_t Group::start(std::shared_ptr<PreparedProgram> plan, std::byte* input, std::byte* output,
                           std::shared_ptr<WorkTime> time) {
  check_usable();
  note_caller();
  if (in_call_.load(std::memory_order_relaxed) != 0) check_alone(*plan);
  std::lock_guard lock(arriving_);
  auto arrived = std::make_shared<TicketLock::Ticket>(lock_);
  bool at_once = ranks_ == 1 && plan->moved_bytes <= at_once_bytes && arrived->is_next();
  auto job = [this, plan = std::move(plan), input, output, arrived = std::move(arrived), time](Hooks& hooks) {
    auto ticket = std::move(*arrived);
    Health::Keeping keeping(endpoint_->health());
    await(ticket, hooks);
    TimedWork timed(hooks, time != nullptr);
    execute(plan, input, output, hooks);
    if (time) time->store(timed.ns(), std::memory_order_release);
  };
  return worker_->start(std::move(job), at_once);
}

bool Group::wait(std::uint64_t ticket, double timeout_s, Hooks& hooks) {
  if (ticket < 1 || ticket > worker_->issued())
    throw std::invalid_argument("no ticket " + std::to_string(ticket) + ": " + std::to_string(worker_->issued()) +
                                " were issued");
  if (!worker_->done(ticket)) {
    check_home();  // the thread that would end it is the parent's
    if (timeout_s < 0) check_outside("wait");
  }
  if (!worker_->wait(ticket, timeout_s, hooks)) return false;
  try {
    worker_->raise(ticket);
  } catch (const Error&) {
    endpoint_->health().kept_is_raised();
    throw;
  }
  return true;
}

void Group::exchange(std::span<Operation> operations, double timeout_s, Hooks& hooks) {
  messages();
  for (auto& o : operations) check_peer(o);
  exchange_->run(operations, timeout_s, hooks);
}

std::uint64_t Group::post(Operation operation) {
  check_peer(operation);
  return messages().post(std::move(operation));
}

std::optional<Envelope> Group::probe(int source, int tag, double timeout_s, Hooks& hooks, bool may_have_left) {
  check_peer({false, source, tag, nullptr, 0, 0});
  return messages().probe(source, tag, timeout_s, hooks, may_have_left);
}

Exchange& Group::messages() {
  check_usable();
  note_caller();
  return *exchange_;
}

Signals& Group::signals() {
  check_usable();
  note_caller();
  return *signals_;
}

void Group::check_peer(const Operation& o) const {
  if ((o.peer < 0 || o.peer >= ranks_) && (o.is_send || o.peer != any))
    throw std::invalid_argument("peer " + std::to_string(o.peer) + " of " + std::to_string(ranks_) + " ranks");
}

std::byte* Group::add_region(int fd, std::size_t nbytes, std::size_t reserved, Hooks& hooks) {
  return map(fd, nbytes, reserved, hooks).base();
}

std::byte* Group::add_shares(int fd, std::size_t nbytes, Hooks& hooks) {
  auto& mapping = map(fd, nbytes * ranks_, 0, hooks);
  mapping.reserve(fd, {0, nbytes, ranks_, nodes_}, rank());
  return mapping.base();
}

void Group::add_region(Region region, Hooks& hooks) {
  check_outside("empty");
  TicketLock::Ticket ticket(lock_);
  await(ticket, hooks);
  add_region(region);
}

// Several threads may map at once. Messages name a region by its number, so one that this rank has no room for has a
// number here, too.
Mapping& Group::map(int fd, std::size_t nbytes, std::size_t reserved, Hooks& hooks) {
  check_usable();
  check_outside("empty");
  auto mapped = [&] {
    try {
      return Mapping(fd, nbytes, reserved);
    } catch (const std::system_error&) {
      add_region(Region{nullptr, 0}, hooks);
      throw;
    }
  };
  auto mapping = mapped();
  TicketLock::Ticket ticket(lock_);
  await(ticket, hooks);
  auto& kept = mappings_.emplace_back(std::move(mapping));
  add_region({kept.base(), nbytes});
  return kept;
}

void Group::add_region(Region region) {
  interpreter_->add_region(region);
  if (bridge_) bridge_->add_region(region.base);
}

int Group::add_window(std::byte* base, std::size_t nbytes) {
  std::size_t number;
  {
    std::lock_guard lock(windows_lock_);
    number = windows_.size();
    windows_.push_back({base, nbytes});
  }
  if (bridge_) bridge_->add_window(base + nbytes * std::size_t(rank()), nbytes);
  return static_cast<int>(number);
}

std::byte* Group::in_window(int window, int rank, std::size_t offset, std::size_t nbytes) const {
  check_rank(rank);
  std::lock_guard lock(windows_lock_);
  if (window < 0 || window >= static_cast<int>(windows_.size()))
    throw std::invalid_argument("window " + std::to_string(window) + " of " + std::to_string(windows_.size()));
  auto& found = windows_[window];
  if (offset > found.nbytes || nbytes > found.nbytes - offset)
    throw std::invalid_argument(std::to_string(nbytes) + " bytes from " + std::to_string(offset) +
                                " on in a window of " + std::to_string(found.nbytes));
  return found.base + std::size_t(rank) * found.nbytes + offset;
}

void Group::put(int window, std::size_t offset, int peer, std::span<const std::byte> source, Hooks& hooks) {
  check_usable();
  auto there = in_window(window, peer, offset, source.size());
  if (endpoint_->elsewhere(peer)) return bridge_->put(peer, window, offset, source, hooks);
  if (!source.empty()) move_bytes(there, source.data(), source.size());
}

void Group::get(int window, std::size_t offset, int peer, std::span<std::byte> target, Hooks& hooks) {
  check_usable();
  auto there = in_window(window, peer, offset, target.size());
  if (endpoint_->elsewhere(peer)) return bridge_->get(peer, window, offset, target, hooks);
  if (!target.empty()) move_bytes(target.data(), there, target.size());
}

std::vector<Group::Counted> Group::received() const {
  std::vector<Counted> counted(ranks_);
  for (auto by : {&interpreter_->received, &exchange_->received})
    for (int peer = 0; peer < ranks_; peer++) {
      counted[peer].bytes += (*by)[peer].bytes.load(std::memory_order_relaxed);
      counted[peer].messages += (*by)[peer].messages.load(std::memory_order_relaxed);
    }
  return counted;
}

void Group::reset_received() {
  for (auto by : {&interpreter_->received, &exchange_->received})
    for (auto& from : *by) from.reset();
}

void Group::record(std::size_t most, Hooks& hooks) {
  if (most > 0) {
    check_usable();
    check_outside("trace");
    TicketLock::Ticket ticket(lock_);
    await(ticket, hooks);
    interpreter_->start_recording(most, lazily_);
    exchange_->record(most);
    return;
  }
  check_home();
  interpreter_->stop_recording();
  exchange_->record(0);
  // A call that still runs may write there; it is then kept until the next recording, or the end.
  if (TicketLock::Ticket ticket(lock_); ticket.is_next()) interpreter_->forget_recording();
}

// A mismatch that this rank has not heard of: in its last call, or found by others since. A rank that left without that
// call is one too, whoever missed it first.
void Group::check_last_call() {
  auto& health = endpoint_->health();
  if (!leaves_by_error_ && !health.failed()) interpreter_->await_peers_in_last_call(last_wait_ns);
  if (!health.failed()) interpreter_->check_last_call();
  if (leaves_by_error_ || health.raised() || worker_->failed_awaited()) return;
  auto failure = health.await_failure();
  if (!failure) return;
  bool of_waiting = failure->kind == Failure::died || failure->kind == Failure::timed_out;
  if (failure->kind == Failure::mismatch || (of_waiting && interpreter_->was_missed_in_last_call()))
    health.raise_failure();
}

void Group::close() {
  if (!open_.exchange(false) || !at_home()) return;
  std::exception_ptr error;
  endpoint_->stopping.store(true, std::memory_order_relaxed);
  worker_->stop();
  TicketLock::Ticket ticket(lock_);
  while (!ticket.is_next()) usleep(100);
  try {
    check_last_call();
  } catch (...) {
    error = std::current_exception();
  }
  auto& health = endpoint_->health();
  if (auto cause = health.why_leaving()) health.tell_cause(*cause);
  exchange_->close();
  signals_->end();
  if (bridge_) bridge_->close();
  health.leave();
  over_ = true;
  if (error) std::rethrow_exception(error);
}

}  // namespace ringtree
