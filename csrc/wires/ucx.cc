#include "wires/ucx.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "kernels/copies.h"
#include "machine.h"
#include "wires/liveness.h"

namespace ringtree {

using ucx::Arrival, ucx::Outcome, ucx::RequestParameters, ucx::Status;

namespace {

constexpr unsigned message = 1;                     // the number of the only active message
constexpr std::size_t most_eager_bytes = 4096;      // smaller frames never come by rendezvous, and so never early
constexpr std::uint64_t most_ahead = 1 << 16;       // messages that a peer may be ahead of its turn
constexpr std::size_t most_held_bytes = 64 << 20;   // and bytes of theirs that UCX, or this wire, keeps
constexpr std::int64_t refused_ns = 1'000'000'000;  // a peer that refuses is reported after so long
constexpr std::int64_t closing_ns = 1'000'000'000;  // a network that is there closes sooner

RequestParameters parameters_for(void* user_data, std::uint32_t flags = 0) {
  RequestParameters parameters{};
  parameters.mask = RequestParameters::has_callback | RequestParameters::has_user_data |
                    RequestParameters::has_memory_type | (flags ? RequestParameters::has_flags : 0);
  parameters.flags = flags;
  parameters.user_data = user_data;
  return parameters;
}

}  // namespace

UcxWire::UcxWire(int rank, Options options, Sink& sink)
    : rank_(rank),
      worker_(std::move(options.worker)),
      ucx_(worker_->library()),
      peers_(std::move(options.peers)),
      sink_(sink),
      links_(peers_.size()) {
  for (auto& link : links_) link.wire = this;
  if (worker_->most_head_bytes() < sizeof(Head))
    throw std::runtime_error("UCX carries heads of " + std::to_string(worker_->most_head_bytes()) +
                             " bytes here, and " + std::to_string(sizeof(Head)) + " are needed");
  ucx::HandlerParameters handler{};
  handler.mask =
      ucx::HandlerParameters::has_number | ucx::HandlerParameters::has_handler | ucx::HandlerParameters::has_argument;
  handler.number = message;
  handler.handler = arrived;
  handler.argument = this;
  if (auto status = ucx_.worker_set_am_recv_handler(worker_->handle(), &handler); status != ucx::ok)
    throw std::runtime_error(std::string("UCX takes no messages: ") + ucx_.status_string(status));
}

// What is still on its way goes to peers that have answered leave(); others are cut short.
UcxWire::~UcxWire() {
  ending_ = true;
  for (auto& link : links_) close(link, link.awaits_farewell || !link.heard || link.broken != ucx::ok);
  for (auto began_ns = now_ns(); closing_ > 0 && now_ns() - began_ns < closing_ns;)
    if (!ucx_.worker_progress(worker_->handle())) sched_yield();
  for (auto& link : links_)
    for (auto& [number, held] : link.held) release(*held);
  worker_->close();
}

void UcxWire::connect(int peer) {
  if (!links_[peer].left) open(peer);
}

void UcxWire::open(int peer) {
  auto& link = links_[peer];
  if (link.endpoint || link.lost || link.broken != ucx::ok) return;
  ucx::EndpointParameters parameters{};
  parameters.mask = ucx::EndpointParameters::has_address | ucx::EndpointParameters::has_error_mode |
                    ucx::EndpointParameters::has_error_handler;
  parameters.address = reinterpret_cast<const ucx::Address*>(peers_[peer].address.data());
  parameters.error_mode = ucx::EndpointParameters::reports_peers;
  parameters.error = {broken, &link};
  auto status = ucx_.ep_create(worker_->handle(), &parameters, &link.endpoint);
  link.heard_ns = now_ns();
  if (status != ucx::ok) {
    link.endpoint = nullptr;
    return fail(link, status);
  }
  push(peer, Frame::Kind::heartbeat);  // the peer answers with its own
}

void UcxWire::send(int peer, const Frame& frame, const std::byte* payload) {
  post(peer, frame, payload, {});
}

void UcxWire::send(int peer, const Frame& frame, std::string payload) {
  auto whole = frame;
  whole.nbytes = static_cast<std::uint32_t>(payload.size());
  post(peer, whole, nullptr, std::move(payload));
}

void UcxWire::push(int peer, Frame::Kind kind) {
  Frame frame{};
  frame.kind = kind;
  post(peer, frame, nullptr, {});
}

void UcxWire::post(int peer, const Frame& frame, const std::byte* payload, std::string own) {
  if (inside_) {
    deferred_.push_back({peer, frame, payload, std::move(own)});
    return;
  }
  auto& link = links_[peer];
  if (!link.left || frame.kind == Frame::Kind::farewell) open(peer);
  if (!link.endpoint || link.broken != ucx::ok) return;
  if (spare_.empty()) spare_.push_back(std::make_unique<Sending>());
  auto sending = link.under_way.emplace_back(std::move(spare_.back())).get();
  spare_.pop_back();
  sending->wire = this;
  sending->peer = peer;
  sending->head = {++link.sent, rank_, 0, peers_[peer].to_it, frame};
  sending->payload = payload;
  sending->own = std::move(own);
  sending->done = sending->complete = false;
  auto parameters = parameters_for(sending, frame.nbytes < most_eager_bytes ? RequestParameters::eager : 0);
  parameters.callback.sent = sent;
  auto bytes = payload ? payload : reinterpret_cast<const std::byte*>(sending->own.data());
  link.sent_ns = now_ns();
  auto outcome =
      ucx_.am_send_nbx(link.endpoint, message, &sending->head, sizeof(Head), bytes, frame.nbytes, &parameters);
  if (outcome && !ucx::failed(outcome)) return;
  finish(sending, !outcome);
  if (outcome) fail(link, ucx::status_of(outcome));
}

// An eager message may be complete before one by rendezvous that went out earlier.
void UcxWire::finish(Sending* sending, bool complete) {
  auto& link = links_[sending->peer];
  sending->done = true;
  sending->complete = complete;
  while (!link.under_way.empty() && link.under_way.front()->done) {
    auto first = std::move(link.under_way.front());
    link.under_way.pop_front();
    if (first->complete && first->payload && !ending_) sink_.sent(first->peer, first->head.frame);
    first->own.clear();
    spare_.push_back(std::move(first));
  }
}

void UcxWire::sent(void* request, Status status, void* user_data) {
  auto sending = static_cast<Sending*>(user_data);
  auto& wire = *sending->wire;
  if (status != ucx::ok) wire.fail(wire.links_[sending->peer], status);
  wire.finish(sending, status == ucx::ok);
  wire.ucx_.request_free(request);
}

// Drops what does not prove that a rank of the job sent it.
Status UcxWire::arrived(void* argument, const void* bytes, std::size_t nbytes_of_head, void* data, std::size_t nbytes,
                        const Arrival* arrival) {
  auto& wire = *static_cast<UcxWire*>(argument);
  Head head;
  if (nbytes_of_head != sizeof head || wire.ending_) return ucx::ok;
  std::memcpy(&head, bytes, sizeof head);
  if (head.from < 0 || head.from >= static_cast<int>(wire.peers_.size())) return ucx::ok;
  auto& peer = wire.peers_[head.from];
  if (peer.address.empty() || !same(head.proof, peer.from_it)) return ucx::ok;
  try {
    return wire.take(head, data, nbytes, *arrival);
  } catch (...) {  // UCX's own frames are in between
    wire.thrown_ = std::current_exception();
    return ucx::ok;
  }
}

Status UcxWire::take(const Head& head, void* data, std::size_t nbytes, const Arrival& arrival) {
  auto& link = links_[head.from];
  if (link.lost) return ucx::ok;
  link.heard_ns = now_ns();
  if (!std::exchange(link.heard, true)) push(head.from, Frame::Kind::heartbeat);
  bool offered = arrival.flags & Arrival::rendezvous;
  bool fits = nbytes == head.frame.nbytes && (!offered || nbytes >= most_eager_bytes) && head.number >= link.next &&
              head.number - link.next < most_ahead && link.held_bytes + nbytes <= most_held_bytes &&
              !link.held.contains(head.number);
  if (!fits) {
    faults_.emplace_back(head.from, "sent what nobody asked for");
    return ucx::ok;
  }
  if (!offered && head.number == link.next) {
    link.next++;
    if (!deliver(head.from, head.frame, data)) faults_.emplace_back(head.from, "sent what nobody asked for");
    if (!link.held.empty()) due_.push_back(head.from);
    return ucx::ok;
  }
  auto state = offered ? Held::State::offered : Held::State::here;
  auto held = std::make_unique<Held>(Held{this, head.from, head.frame, state, nullptr, {}});
  bool keeps = offered || (nbytes && arrival.flags & Arrival::lasts);
  if (keeps)
    held->data = data;
  else
    held->copy.assign(static_cast<const char*>(data), nbytes);
  link.held_bytes += nbytes;
  link.held.emplace(head.number, std::move(held));
  due_.push_back(head.from);
  return keeps ? ucx::in_progress : ucx::ok;
}

bool UcxWire::deliver(int peer, const Frame& frame, const void* data) {
  if (frame.nbytes) {
    std::shared_ptr<void> keeps;
    auto target = sink_.place(peer, frame, keeps);
    if (!target) return false;
    copy_bytes(target, static_cast<const std::byte*>(data), frame.nbytes);
  }
  return end_frame(peer, frame);
}

bool UcxWire::end_frame(int peer, const Frame& frame) {
  auto& link = links_[peer];
  if (frame.kind == Frame::Kind::left) {
    link.left = true;
    push(peer, Frame::Kind::farewell);
  }
  if (frame.kind == Frame::Kind::farewell) link.awaits_farewell = false;
  return sink_.arrived(peer, frame);
}

// Outside of UCX's calls, as what follows.
void UcxWire::fetch(Held& held) {
  auto target = sink_.place(held.peer, held.frame, held.keeps);
  if (!target) {
    faults_.emplace_back(held.peer, "sent what nobody asked for");
    return;
  }
  held.state = Held::State::fetching;
  auto parameters = parameters_for(&held);
  parameters.callback.received = fetched;
  auto description = std::exchange(held.data, nullptr);
  auto outcome = ucx_.am_recv_data_nbx(worker_->handle(), description, target, held.frame.nbytes, &parameters);
  if (!outcome) held.state = Held::State::complete;
  if (ucx::failed(outcome))
    faults_.emplace_back(held.peer, std::string("cannot be read from: ") + ucx_.status_string(ucx::status_of(outcome)));
}

void UcxWire::fetched(void* request, Status status, std::size_t, void* user_data) {
  auto held = static_cast<Held*>(user_data);
  auto& wire = *held->wire;
  held->state = Held::State::complete;
  wire.links_[held->peer].heard_ns = now_ns();
  if (status == ucx::ok)
    wire.due_.push_back(held->peer);
  else if (!wire.ending_)
    wire.faults_.emplace_back(held->peer, std::string("cannot be read from: ") + wire.ucx_.status_string(status));
  wire.ucx_.request_free(request);
}

// Takes what has its turn, and asks for the payloads that wait at their senders.
void UcxWire::go_on(int peer) {
  auto& link = links_[peer];
  if (link.lost) return;
  for (auto& [number, held] : link.held)
    if (held->state == Held::State::offered) fetch(*held);
  for (bool right = true; right && !link.held.empty();) {
    auto first = link.held.begin();
    auto& held = *first->second;
    if (first->first != link.next || held.state == Held::State::fetching || held.state == Held::State::offered) return;
    link.next++;
    right = held.state == Held::State::complete ? end_frame(peer, held.frame)
                                                : deliver(peer, held.frame, held.data ? held.data : held.copy.data());
    if (!right) faults_.emplace_back(peer, "sent what nobody asked for");
    release(held);
    link.held_bytes -= held.frame.nbytes;
    link.held.erase(first);
  }
}

void UcxWire::release(Held& held) {
  if (auto data = std::exchange(held.data, nullptr)) ucx_.am_data_release(worker_->handle(), data);
}

void UcxWire::broken(void* argument, ucx::Endpoint*, Status status) {
  auto& link = *static_cast<Link*>(argument);
  link.wire->fail(link, status);
}

void UcxWire::fail(Link& link, Status status) {
  link.broken = status;
  any_broken_ = true;
}

bool UcxWire::progress() {
  inside_ = true;
  bool moved = ucx_.worker_progress(worker_->handle()) != 0;
  inside_ = false;
  settle();
  return moved;
}

// What could not be done while UCX called.
void UcxWire::settle() {
  if (auto thrown = std::exchange(thrown_, nullptr)) std::rethrow_exception(thrown);
  while (!due_.empty() || !deferred_.empty() || !faults_.empty()) {
    for (auto& [peer, why] : std::exchange(faults_, {})) lose(peer, why);
    for (auto due = std::exchange(due_, {}); int peer : due) go_on(peer);
    for (auto deferred = std::exchange(deferred_, {}); auto& d : deferred)
      post(d.peer, d.frame, d.payload, std::move(d.own));
  }
  if (!std::exchange(any_broken_, false)) return;
  for (std::size_t peer = 0; peer < links_.size(); peer++)
    if (links_[peer].broken != ucx::ok && !links_[peer].lost) report(static_cast<int>(peer));
}

// A peer that was never heard may have left because of a failure, of which word is still on its way.
void UcxWire::report(int peer) {
  auto& link = links_[peer];
  if (!link.heard && now_ns() - link.heard_ns < refused_ns) {
    any_broken_ = true;
    return;
  }
  bool ended = link.broken == ucx::reset;
  lose(peer, ended ? "closed its connection" : std::string("cannot be reached: ") + ucx_.status_string(link.broken));
}

void UcxWire::lose(int peer, const std::string& why) {
  auto& link = links_[peer];
  close(link, true);
  link.awaits_farewell = false;
  if (std::exchange(link.lost, true) || link.left || leaving_) return;
  sink_.lost(peer, why);
}

void UcxWire::close(Link& link, bool force) {
  if (!link.endpoint) return;
  RequestParameters parameters{};
  parameters.mask = RequestParameters::has_callback | RequestParameters::has_user_data | RequestParameters::has_flags;
  parameters.flags = force ? RequestParameters::force : 0;
  parameters.user_data = this;
  parameters.callback.sent = closed;
  closing_++;
  auto outcome = ucx_.ep_close_nbx(std::exchange(link.endpoint, nullptr), &parameters);
  if (!outcome || ucx::failed(outcome)) closing_--;
}

void UcxWire::closed(void* request, Status, void* wire) {
  auto& w = *static_cast<UcxWire*>(wire);
  w.closing_--;
  w.ucx_.request_free(request);
}

void UcxWire::tick() {
  progress();
  auto now = now_ns();
  for (std::size_t k = 0; k < links_.size(); k++) {
    auto& link = links_[k];
    auto peer = static_cast<int>(k);
    if (!link.endpoint) continue;
    if (auto why = overdue(now, link.heard_ns, link.heard))
      lose(peer, why);
    else if (heartbeat_due(now, link.sent_ns))
      push(peer, Frame::Kind::heartbeat);
  }
}

bool UcxWire::arm() {
  return ucx_.worker_arm(worker_->handle()) == ucx::ok;
}

void UcxWire::announce_to_all(Frame::Kind kind) {
  for (std::size_t peer = 0; peer < links_.size(); peer++) {
    auto& link = links_[peer];
    if (!link.endpoint) continue;
    link.awaits_farewell = kind == Frame::Kind::left && !link.left;
    push(static_cast<int>(peer), kind);
  }
}

void UcxWire::leave() {
  leaving_ = true;
  announce_to_all(Frame::Kind::left);
}

void UcxWire::depart() {
  announce_to_all(Frame::Kind::gone);
}

bool UcxWire::busy() const {
  return !deferred_.empty() || std::ranges::any_of(links_, [](auto& link) { return !link.under_way.empty(); });
}

bool UcxWire::finished() const {
  return std::ranges::none_of(links_, [](auto& link) { return link.awaits_farewell; });
}

}  // namespace ringtree
