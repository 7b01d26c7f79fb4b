#include "exchange.h"

#include <algorithm>
#include <cstring>

#include "kernels.h"

namespace ringtree {

Exchange::Exchange(Seat& seat) : seat_(seat) {
  for (int peer = 0; peer < seat.ranks(); peer++)
    peers_.emplace_back(seat.segment().pipe_out(seat.rank(), peer), seat.segment().pipe_in(peer, seat.rank()));
}

// The operations of one call, as a wait sees them.
class Exchange::Batch : public Situation {
 public:
  Batch(Exchange& exchange, std::span<Operation> operations) : exchange_(exchange), operations_(operations) {}

  // The first that is not complete; nullptr when all are.
  const Operation* open() const {
    auto found = std::find_if(operations_.begin(), operations_.end(), [](auto& o) { return !o.complete; });
    return found == operations_.end() ? nullptr : &*found;
  }

  std::string where() const override {
    std::lock_guard lock(exchange_.mutex_);
    auto first = open();
    if (!first) return "send and recv";
    return (first->is_send ? "send to " : "recv from ") + exchange_.seat_.name(first->peer) + ", tag " +
           std::to_string(first->tag);
  }

  void inspect() override {
    std::unique_lock lock(exchange_.mutex_);
    exchange_.progress();
    for (auto& o : operations_)
      if (!o.complete && exchange_.seat_.left(o.peer)) {
        exchange_.progress();  // what it sent before it left
        if (o.complete) continue;
        lock.unlock();
        exchange_.seat_.fail(Failure::died, o.peer,
                             exchange_.seat_.name(o.peer) + " left the group while " +
                                 exchange_.seat_.name(exchange_.seat_.rank()) + " waited for it in " + where());
      }
  }

  bool abandon() override {
    std::lock_guard lock(exchange_.mutex_);
    return exchange_.withdraw(operations_);
  }

 private:
  Exchange& exchange_;
  std::span<Operation> operations_;
};

void Exchange::run(std::span<Operation> operations, double timeout_s, Hooks& hooks) {
  Batch batch(*this, operations);
  Seat::Patience patience(timeout_s);
  patience.begun_ns = now_ns();
  const Operation* open = nullptr;
  {
    std::lock_guard lock(mutex_);
    for (auto& o : operations) post(o);
    open = batch.open();
  }
  try {
    while (open) {
      auto go_on = [&] {
        std::lock_guard lock(mutex_);
        bool moved = progress();
        open = batch.open();
        return moved || !open;
      };
      seat_.until(go_on, open->peer, batch, hooks, patience);
    }
  } catch (...) {
    // Nobody may write into the operations after they are gone; if one was under way, the group is broken.
    if (!batch.abandon())
      seat_.poison(Failure::poisoned, -1, seat_.name(seat_.rank()) + " was interrupted in " + batch.where());
    throw;
  }
}

void Exchange::post(Operation& o) {
  auto& peer = peers_[o.peer];
  if (o.is_send) {
    if (o.peer == seat_.rank())
      send_to_self(o);
    else
      peer.sends.push_back(&o);
    return;
  }
  auto found = std::find_if(peer.stored.begin(), peer.stored.end(),
                            [&](auto& s) { return s.tag == o.tag && s.wanted_by == nullptr; });
  if (found == peer.stored.end()) {
    peer.receives.push_back(&o);
    return;
  }
  check(o.peer, o.tag, found->total, found->dtype, o);
  o.started = true;
  found->wanted_by = &o;
  finish(*found);
  if (o.complete) peer.stored.erase(found);
}

// Hands a stored message to who wants it, if all of it is there.
void Exchange::finish(Stored& stored) {
  if (!stored.wanted_by || stored.moved != stored.total) return;
  if (stored.total) std::memcpy(stored.wanted_by->data, stored.bytes.data(), stored.total);
  stored.wanted_by->complete = true;
}

void Exchange::send_to_self(Operation& send) {
  auto& self = peers_[seat_.rank()];
  auto found = std::find_if(self.receives.begin(), self.receives.end(), [&](auto r) { return r->tag == send.tag; });
  if (found != self.receives.end()) {
    check(seat_.rank(), send.tag, send.nbytes, send.dtype, **found);
    if (send.nbytes) std::memmove((*found)->data, send.data, send.nbytes);
    (*found)->complete = true;
    self.receives.erase(found);
  } else {
    self.stored.push_back({send.tag, send.dtype, send.nbytes, send.nbytes, {send.data, send.data + send.nbytes}});
  }
  send.complete = true;
}

// Moves whatever can be moved; returns whether anything did.
bool Exchange::progress() {
  bool moved = false;
  for (int peer = 0; peer < seat_.ranks(); peer++) {
    if (peer == seat_.rank()) continue;
    moved |= send_some(peer);
    moved |= receive_some(peer);
  }
  return moved;
}

bool Exchange::send_some(int to) {
  auto& peer = peers_[to];
  bool moved = false;
  while (!peer.sends.empty() && peer.out.room()) {
    auto& o = *peer.sends.front();
    auto index = peer.out.published() % seat_.segment().layout().pieces;
    auto& piece = peer.out.blank();
    piece.total = o.nbytes;
    piece.tag = o.tag;
    piece.dtype = static_cast<std::int16_t>(o.dtype);
    piece.first = !o.started;
    auto nbytes = std::min(o.nbytes - o.moved, seat_.segment().layout().piece_bytes);
    piece.nbytes = static_cast<std::uint32_t>(nbytes);
    auto staging = nbytes <= Piece::room ? piece.payload : seat_.segment().piece_staging(seat_.rank(), to, index);
    if (nbytes) std::memcpy(staging, o.data + o.moved, nbytes);
    peer.out.publish();
    seat_.ring(to);
    o.started = moved = true;
    o.moved += nbytes;
    if (o.moved == o.nbytes) {
      o.complete = true;
      peer.sends.pop_front();
    }
  }
  return moved;
}

bool Exchange::receive_some(int from) {
  auto& peer = peers_[from];
  bool moved = false;
  while (peer.in.ready()) {
    auto index = peer.in.taken() % seat_.segment().layout().pieces;
    auto& piece = peer.in.front();
    if (piece.first) begin(from, piece);
    std::size_t nbytes = piece.nbytes;
    auto staging = nbytes <= Piece::room ? piece.payload : seat_.segment().piece_staging(from, seat_.rank(), index);
    auto& so_far = peer.into ? peer.into->moved : peer.store->moved;
    auto target = (peer.into ? peer.into->data : peer.store->bytes.data()) + so_far;
    if (nbytes) std::memcpy(target, staging, nbytes);
    so_far += nbytes;
    if (peer.into && so_far == peer.into->nbytes) {
      peer.into->complete = true;
    } else if (peer.store && so_far == peer.store->total && peer.store->wanted_by) {
      finish(*peer.store);
      peer.stored.remove_if([&](auto& s) { return &s == peer.store; });
    }
    peer.in.take();
    peer.in.release();
    seat_.ring(from);
    moved = true;
  }
  return moved;
}

// A message begins to arrive: it goes to the oldest receive with its tag, or is kept until there is one.
void Exchange::begin(int from, const Piece& piece) {
  auto& peer = peers_[from];
  peer.into = nullptr;
  peer.store = nullptr;
  auto found = std::find_if(peer.receives.begin(), peer.receives.end(), [&](auto r) { return r->tag == piece.tag; });
  if (found != peer.receives.end()) {
    check(from, piece.tag, piece.total, piece.dtype, **found);
    peer.into = *found;
    peer.into->started = true;
    peer.receives.erase(found);
    return;
  }
  peer.stored.push_back({piece.tag, piece.dtype, piece.total, 0, std::vector<std::byte>(piece.total)});
  peer.store = &peer.stored.back();
}

void Exchange::check(int from, int tag, std::size_t nbytes, int dtype, const Operation& receive) {
  if (nbytes == receive.nbytes && dtype == receive.dtype) return;
  auto text = [](std::size_t n, int type) { return std::to_string(n) + " bytes of " + std::string(dtype_name(type)); };
  seat_.fail(Failure::mismatch, -1,
             seat_.name(from) + " sent " + text(nbytes, dtype) + " with tag " + std::to_string(tag) + " where " +
                 seat_.name(seat_.rank()) + " receives " + text(receive.nbytes, receive.dtype));
}

// Takes operations back; false if one was under way.
bool Exchange::withdraw(std::span<Operation> operations) {
  bool whole = true;
  for (auto& o : operations) {
    auto& peer = peers_[o.peer];
    std::erase(peer.sends, &o);
    peer.receives.remove(&o);
    if (peer.into == &o && !o.complete) {  // the rest of it goes where it does no harm
      peer.stored.push_back({o.tag, o.dtype, o.nbytes, o.moved, std::vector<std::byte>(o.nbytes)});
      peer.store = &peer.stored.back();
      peer.into = nullptr;
    }
    for (auto& stored : peer.stored)
      if (stored.wanted_by == &o) stored.wanted_by = nullptr;
    whole &= o.complete || !o.started;
  }
  return whole;
}

}  // namespace ringtree
