#include "messages/exchange.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace ringtree {

namespace {

constexpr std::int64_t check_ns = 50'000'000;            // as often as a slow wait looks
constexpr std::int64_t last_answers_ns = 1'000'000'000;  // a peer whose sends wait has a thread that makes room sooner
constexpr double no_limit = std::numeric_limits<double>::infinity();
constexpr std::int64_t never_ns = std::numeric_limits<std::int64_t>::max();

}  // namespace

Exchange::Exchange(Endpoint& endpoint)
    : received(endpoint.ranks()),
      endpoint_(endpoint),
      matching_(endpoint.ranks()),
      progress_thread_(endpoint.segment().member(endpoint.rank()).progress_doorbell, *this) {
  for (int peer = 0; peer < endpoint.ranks(); peer++)
    peers_.emplace_back(endpoint.segment().pipe_out(endpoint.rank(), peer),
                        endpoint.segment().pipe_in(peer, endpoint.rank()));
}

Exchange::~Exchange() {
  close();
}

// A wait that is still here throws that the endpoint is closed. A thread that has passed the group's own check and
// comes only now finds it closed under the mutex: by then the arrays of what is under way may be gone.
void Exchange::close() {
  end_acknowledgements(last_answers_ns);
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
  }
  retire();
  progress_thread_.stop();
  while (visitors_.load(std::memory_order_acquire) > 0) usleep(100);
}

void Exchange::check_open() const {
  if (closed_) throw endpoint_.health().closed();
}

// Takes operations back whose call ends by an exception: nobody may write into them after they are gone. If a send was
// under way, the group is broken.
void Exchange::take_back(std::span<Operation> operations, const std::string& why) {
  bool whole = true;
  for (auto& o : operations) whole &= withdraw(o);
  if (!whole)
    endpoint_.health().report_failure(
        Failure::poisoned, -1,
        endpoint_.name(endpoint_.rank()) + " failed within a message that it sent" + (why.empty() ? why : ": " + why));
}

// While a thread waits here, it moves all messages; afterwards the progress thread moves the rest.
struct Exchange::Visit {
  explicit Visit(Exchange& exchange) : exchange(exchange) {
    exchange.visitors_.fetch_add(1);
    exchange.progress_thread_.disarm();
  }
  ~Visit() {
    exchange.visitors_.fetch_sub(1);
    exchange.progress_thread_.arm();
  }
  Exchange& exchange;
};

// While messages are recorded: the program waits for these.
struct Exchange::Wanted {
  Wanted(Exchange& exchange, std::vector<Operation*> given) : exchange(exchange), operations(std::move(given)) {
    std::lock_guard lock(exchange.mutex_);
    auto now = Ticks::now();
    std::erase_if(operations, [](auto o) { return o->complete; });
    for (auto o : operations)
      if (o->is_send) o->stalled = o->posted ? now : 0;
    receives = std::ranges::any_of(operations, [](auto o) { return !o->is_send; });
    if (receives && exchange.waiting_++ == 0) exchange.waited_since_ = now;
  }
  ~Wanted() {
    std::lock_guard lock(exchange.mutex_);
    for (auto o : operations) o->stalled = 0;
    if (receives) exchange.waiting_--;
  }
  Exchange& exchange;
  std::vector<Operation*> operations;
  bool receives;
};

// The operations of one call, as a wait sees them.
class Exchange::Awaited : public Situation {
 public:
  enum Until { all_complete, one_complete, one_begun };  // the last is a probe: its one operation is never posted

  Awaited(Exchange& exchange, std::vector<Operation*> operations, Until until, bool may_withdraw = false,
          bool may_have_left = false)
      : exchange_(exchange),
        operations_(std::move(operations)),
        until_(until),
        may_withdraw_(may_withdraw),
        may_have_left_(may_have_left) {}

  // The state when this wait last moved messages: which one was as wanted (-1: none was), and the peer of the first
  // that was not complete (-1: it may be anyone).
  int last_found() const { return last_found_; }
  int last_peer() const { return last_peer_; }

  // Moves messages.
  bool help() override {
    std::lock_guard lock(exchange_.mutex_);
    bool moved = exchange_.progress();
    last_found_ = found();
    auto first = open();
    last_peer_ = first ? first->peer : -1;
    return moved;
  }
  bool helps_at_once() const override { return true; }

  // The operation that is as wanted; -1 while none is. With the mutex held, as all but the Situation's.
  int found() const {
    if (until_ == one_begun) return exchange_.matching_.find(operations_[0]->peer, operations_[0]->tag) ? 0 : -1;
    auto done = [](auto o) { return o->complete; };
    if (until_ == all_complete) return std::all_of(operations_.begin(), operations_.end(), done) ? 0 : -1;
    auto first = std::find_if(operations_.begin(), operations_.end(), done);
    return first == operations_.end() ? -1 : static_cast<int>(first - operations_.begin());
  }

  const Operation* open() const {
    auto first = std::find_if(operations_.begin(), operations_.end(), [](auto o) { return !o->complete; });
    return first == operations_.end() ? nullptr : *first;
  }

  std::string where() const override {
    std::lock_guard lock(exchange_.mutex_);
    return text();
  }
  std::string noticed() const override {
    std::lock_guard lock(exchange_.mutex_);
    auto o = open();
    return o ? instead(*o) : "";
  }

  void inspect() override {
    if (bereft()) exchange_.endpoint_.health().raise_failure();
  }

  bool abandon() override {
    std::lock_guard lock(exchange_.mutex_);
    return !may_withdraw_ || withdraw();
  }

  bool withdraw() {
    bool whole = true;
    for (auto o : operations_) whole &= exchange_.withdraw(*o);
    return whole;
  }

  // Whether one of them waits for a rank that has left, or for any when all have, or one has by an error; fails the
  // group then.
  bool bereft() {
    auto& endpoint = exchange_.endpoint_;
    std::lock_guard lock(exchange_.mutex_);
    for (auto o : operations_) {
      if (o->complete) continue;
      if (o->peer == any && endpoint.relay()) endpoint.relay()->probe_next();
      auto who = gone(o->peer);
      if (!who || (may_have_left_ && (*who < 0 || !endpoint.health().by_error(*who)))) continue;
      exchange_.progress();  // what was sent before it left
      if (o->complete || found() >= 0) continue;
      endpoint.report_departure(*who, text() + instead(*o));
      return true;
    }
    return false;
  }

 private:
  std::string text() const {
    auto o = open();
    if (!o) return "send and recv";
    auto who = o->peer == any ? "any rank" : exchange_.endpoint_.name(o->peer);
    if (o->tag < any) return own_name(o->tag) + (o->is_send ? " to " : " from ") + who;
    return (o->is_send            ? "send to "
            : until_ == one_begun ? "probe for a message from "
                                  : "recv from ") +
           who + ", " + (o->tag == any ? "any tag" : "tag " + std::to_string(o->tag));
  }

  // A message that nobody here waits for may be the awaited one, by a wrong tag.
  std::string instead(const Operation& o) const {
    auto other = o.is_send || o.tag < any ? nullptr : exchange_.matching_.find(o.peer, any);
    if (!other) return "";
    return " (a message of " + exchange_.endpoint_.name(other->envelope.source) + " with tag " +
           std::to_string(other->envelope.tag) + " has come and waits for its recv)";
  }

  // Who of those that a message from `peer` may come from has left; -1: every one. Of several, one that closed the
  // group sends no more, which is no reason why none of the others should; one that left by an error is missed as one
  // that died.
  std::optional<int> gone(int peer) const {
    auto& endpoint = exchange_.endpoint_;
    auto& health = endpoint.health();
    if (peer != any) return health.left(peer) ? std::optional(peer) : std::nullopt;
    bool all = endpoint.ranks() > 1;
    for (int other = 0; other < endpoint.ranks(); other++) {
      if (other == endpoint.rank()) continue;
      if (!health.left(other))
        all = false;
      else if (health.by_error(other))
        return other;
    }
    return all ? std::optional(-1) : std::nullopt;
  }

  Exchange& exchange_;
  std::vector<Operation*> operations_;
  Until until_;
  bool may_withdraw_, may_have_left_;
  int last_found_ = -1, last_peer_ = -1;
};

// Waits for `awaited`; returns which one ended, or -1 after `limit_s`. The endpoint's own timeout throws.
int Exchange::await(Awaited& awaited, Endpoint::Patience patience, double limit_s, Hooks& hooks) {
  patience.begun_ns = now_ns();
  std::int64_t limit_ns = never_ns;
  if (limit_s != no_limit) limit_ns = patience.begun_ns + static_cast<std::int64_t>(std::min(limit_s, 1e9) * 1e9);
  awaited.help();
  for (;;) {
    int peer = awaited.last_peer();
    Question over_or_another(
        [](auto& awaited, auto& peer, auto& limit_ns) {
          return awaited.last_found() >= 0 || awaited.last_peer() != peer ||
                 (limit_ns != never_ns && now_ns() >= limit_ns);
        },
        &awaited, &peer, &limit_ns);
    endpoint_.until(over_or_another, peer, awaited, hooks, patience);
    if (awaited.last_found() >= 0) return awaited.last_found();
    if (awaited.last_peer() != peer) continue;
    if (lost(awaited)) endpoint_.health().raise_failure();
    return -1;
  }
}

// For callers that never wait for long: checks now and then whether an awaited message can still come.
bool Exchange::lost(Awaited& awaited) {
  auto now = now_ns();
  {
    std::lock_guard lock(mutex_);
    if (now - checked_ns_ < check_ns) return endpoint_.health().failed();
    checked_ns_ = now;
  }
  endpoint_.check_for_dead(-1, awaited);
  return awaited.bereft() || endpoint_.health().failed();
}

void Exchange::run(std::span<Operation> operations, double timeout_s, Hooks& hooks) {
  auto all = [&] {
    std::vector<Operation*> each;
    for (auto& o : operations) each.push_back(&o);
    return each;
  };
  std::optional<Wanted> wanted;
  if (recorded()) wanted.emplace(*this, all());
  {
    std::lock_guard lock(mutex_);
    check_open();
    auto complete = [&] { return std::ranges::all_of(operations, [](auto& o) { return o.complete; }); };
    try {
      for (auto& o : operations) begin(o);
      if (complete() || (progress() && complete())) return;
    } catch (...) {
      take_back(operations);
      throw;
    }
  }
  Visit visit(*this);
  Awaited awaited(*this, all(), Awaited::all_complete, true);
  try {
    await(awaited, Endpoint::Patience(timeout_s), no_limit, hooks);
  } catch (...) {
    // Nobody may write into the operations after they are gone; if a send was under way, the group is broken.
    if (!awaited.abandon())
      endpoint_.health().report_failure(Failure::poisoned, -1,
                                        endpoint_.name(endpoint_.rank()) + " was interrupted in " + awaited.where());
    throw;
  }
}

std::uint64_t Exchange::post(Operation operation) {
  auto kept = std::make_shared<Operation>(std::move(operation));
  kept->posted = true;
  std::uint64_t number;
  {
    std::lock_guard lock(mutex_);
    check_open();
    help_others();
    // A program that only begins messages would else keep all their arrays until the progress thread has a core.
    if (unfinished_.load(std::memory_order_relaxed) > 0) progress();
    number = ++issued_;
    posted_[number] = kept;
    unfinished_.fetch_add(1);
    auto undo = [&](const std::string& why) {
      if (!kept->complete) unfinished_.fetch_sub(1);
      take_back({kept.get(), 1}, why);
      posted_.erase(number);
    };
    try {
      begin(*kept);
      if (kept->complete) return number;
      start_progress_thread();
    } catch (const std::system_error& error) {  // no thread: the others hear of the limit, too
      undo(error.what());
      throw;
    } catch (...) {
      undo("");
      throw;
    }
  }
  progress_thread_.arm();
  return number;
}

Exchange::Kept Exchange::find(std::uint64_t number) {
  std::lock_guard lock(mutex_);
  auto found = posted_.find(number);
  if (found == posted_.end()) throw std::invalid_argument("no message " + std::to_string(number) + " is under way");
  return found->second;
}

bool Exchange::test(std::uint64_t number) {
  auto kept = find(number);
  {
    std::lock_guard lock(mutex_);
    if (!kept->complete) progress();
    if (kept->complete) return true;
  }
  Visit visit(*this);
  Awaited awaited(*this, {kept.get()}, Awaited::one_complete);
  return lost(awaited);
}

int Exchange::wait(std::span<const std::uint64_t> numbers, bool first, double timeout_s, Hooks& hooks) {
  std::vector<Kept> kept;
  for (auto number : numbers) kept.push_back(find(number));
  std::vector<Operation*> all;
  for (auto& each : kept) all.push_back(each.get());
  Visit visit(*this);
  std::optional<Wanted> wanted;
  if (recorded()) wanted.emplace(*this, all);
  Awaited awaited(*this, std::move(all), first ? Awaited::one_complete : Awaited::all_complete);
  bool limited = timeout_s >= 0;
  return await(awaited, Endpoint::Patience(limited ? 1e9 : endpoint_.timeout_s()), limited ? timeout_s : no_limit,
               hooks);
}

void Exchange::record(std::size_t most) {
  std::lock_guard lock(mutex_);
  most_events_.store(most, std::memory_order_relaxed);
  recorder_.reset();
}

std::shared_ptr<const Recorder> Exchange::recorder() {
  std::lock_guard lock(mutex_);
  return recorder_;
}

Envelope Exchange::status(std::uint64_t number) {
  auto kept = find(number);
  std::lock_guard lock(mutex_);
  if (!kept->complete) throw std::invalid_argument("message " + std::to_string(number) + " is still under way");
  return {kept->is_send ? endpoint_.rank() : kept->peer, kept->tag, kept->dtype, kept->nbytes};
}

bool Exchange::drop(std::uint64_t number) {
  std::lock_guard lock(mutex_);
  auto found = posted_.find(number);
  if (found == posted_.end()) return true;
  if (!found->second->complete) return false;
  posted_.erase(found);
  return true;
}

std::optional<Envelope> Exchange::probe(int source, int tag, double timeout_s, Hooks& hooks, bool may_have_left) {
  Visit visit(*this);
  Operation receive{false, source, tag, nullptr, 0, 0};
  Awaited awaited(*this, {&receive}, Awaited::one_begun, false, may_have_left);
  bool limited = timeout_s >= 0;
  for (;;) {
    if (await(awaited, Endpoint::Patience(limited ? 1e9 : endpoint_.timeout_s()), limited ? timeout_s : no_limit,
              hooks) < 0)
      return std::nullopt;
    std::lock_guard lock(mutex_);
    if (auto unexpected = matching_.find(source, tag)) return unexpected->envelope;  // unless another thread took it
  }
}

}  // namespace ringtree
