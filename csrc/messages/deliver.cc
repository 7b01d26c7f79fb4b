// The part of the exchange that moves bytes: out through the pipes, in to the receive that a message goes to.
#include <algorithm>
#include <system_error>

#include "kernels/copies.h"
#include "kernels/kernels.h"
#include "messages/exchange.h"

namespace ringtree {

void Exchange::begin(Operation& o) {
  if (!o.is_send) {
    if (auto unexpected = matching_.find(o.peer, o.tag)) {
      o.make_room(unexpected->envelope.nbytes);
      hand(*unexpected, o);
    } else {
      matching_.wait(o);
    }
  } else if (o.peer == endpoint_.rank()) {
    send_to_self(o);
  } else {
    if (recorded()) o.handed_over = Ticks::now();
    peers_[o.peer].sends.push_back(&o);
    send_some(o.peer);
    if (!o.complete && !o.posted) o.stalled = o.handed_over;
  }
}

void Exchange::finish(Operation& o) {
  o.complete = true;
  if (!o.is_send && o.peer != endpoint_.rank()) received[o.peer].add(o.nbytes);
  if (recorded() && o.peer != endpoint_.rank()) note(o);
  if (!o.posted) return;
  unfinished_.fetch_sub(1, std::memory_order_relaxed);
  if (visitors_.load(std::memory_order_relaxed) > 0) endpoint_.ring(endpoint_.rank());  // a waiting thread may sleep
}

// Records the operation, in the thread that moved it. Each message that comes while the program waits for one ends a
// wait and begins the next, whichever it waits for: so waits add up to what they took, and begin in the order in which
// messages came.
void Exchange::note(const Operation& o) {
  if (!recorder_) recorder_ = std::make_shared<Recorder>(most_events_, true);
  auto now = Ticks::now(), wanted = std::max(waited_since_, arrived_);
  int dtype = o.dtype < dtypes ? o.dtype : static_cast<int>(Dtype::uint8);
  auto print = print_of_message(dtype, o.nbytes / dtype_bytes(dtype), o.tag);
  auto write = [&](Recorder::Did did, std::uint64_t start, std::size_t nbytes) {
    recorder_->note_message(print, did, start, now, o.peer, nbytes, o.number);
  };
  if (!o.is_send) {
    write(Recorder::Did::wait, waiting_ ? wanted : now, o.nbytes);
    arrived_ = now;
    return;
  }
  write(Recorder::Did::send, o.handed_over ? o.handed_over : now, o.nbytes);
  if (o.stalled) write(Recorder::Did::stall, waiting_ ? std::max(o.stalled, wanted) : o.stalled, 0);
}

// Moves all messages as far as they can move; returns whether any did.
bool Exchange::progress() {
  if (closed_) return false;
  bool moved = endpoint_.relay() && endpoint_.relay()->advance();
  for (int peer = 0; peer < endpoint_.ranks(); peer++) {
    if (peer == endpoint_.rank()) continue;
    moved |= send_some(peer);
    moved |= receive_some(peer);
  }
  return moved;
}

// For a thread that waits elsewhere: does nothing while another thread moves messages.
bool Exchange::advance() noexcept {
  if (unfinished_.load(std::memory_order_relaxed) == 0) return false;
  std::unique_lock lock(mutex_, std::try_to_lock);
  return lock.owns_lock() && move_all(lock);
}

// For the progress thread, which must not miss messages that came while another thread moved them.
bool Exchange::move() noexcept {
  std::unique_lock lock(mutex_);
  return move_all(lock);
}

bool Exchange::move_all(std::unique_lock<std::mutex>&) noexcept {
  try {
    return progress();
  } catch (const std::exception& error) {
    endpoint_.health().report_failure(Failure::poisoned, -1,
                                      endpoint_.name(endpoint_.rank()) + " failed to move messages: " + error.what());
    return false;
  }
}

ProgressThread::Need Exchange::need() const noexcept {
  if (unfinished_.load() == 0) return ProgressThread::Need::none;
  return visitors_.load() > 0 ? ProgressThread::Need::others_see_to_it : ProgressThread::Need::wanted;
}

bool Exchange::send_some(int to) {
  auto& peer = peers_[to];
  bool moved = false;
  if (!peer.sends.empty() && !peer.out.opened) endpoint_.segment().open(peer.out, endpoint_.rank(), to);
  while (!peer.sends.empty() && peer.out.room()) {
    auto& o = *peer.sends.front();
    auto index = peer.out.published() % endpoint_.segment().layout().pieces;
    auto& piece = peer.out.blank();
    piece.total = o.nbytes;
    piece.tag = o.tag;
    piece.dtype = static_cast<std::int16_t>(o.dtype);
    piece.first = o.started ? 0 : o.synchronous ? 2 : 1;
    if (piece.first) o.number = ++peer.sent;
    auto nbytes = std::min(o.nbytes - o.moved, endpoint_.segment().layout().piece_bytes);
    piece.nbytes = static_cast<std::uint32_t>(nbytes);
    auto staging =
        nbytes <= Piece::room ? piece.payload : endpoint_.segment().piece_staging(endpoint_.rank(), to, index, nbytes);
    if (nbytes) copy_bytes(staging, o.data + o.moved, nbytes);
    peer.out.publish();
    ring(to);
    o.started = moved = true;
    o.moved += nbytes;
    if (o.moved == o.nbytes) {
      finish(o);
      peer.sends.pop_front();
    }
  }
  return moved;
}

bool Exchange::receive_some(int from) {
  auto& peer = peers_[from];
  bool moved = false;
  while (peer.in.ready() && !peer.refused) {
    auto index = peer.in.taken() % endpoint_.segment().layout().pieces;
    auto& piece = peer.in.front();
    if (piece.first && !open(from, piece)) {
      peer.refused = true;
      break;
    }
    std::size_t nbytes = piece.nbytes;
    auto staging = nbytes <= Piece::room ? piece.payload
                                         : endpoint_.segment().piece_staging(from, endpoint_.rank(), index, nbytes);
    auto& so_far = peer.into ? peer.into->moved : peer.unexpected->moved;
    auto target = (peer.into ? peer.into->data : peer.unexpected->bytes.get()) + so_far;
    if (nbytes) copy_bytes(target, staging, nbytes);
    so_far += nbytes;
    if (so_far == (peer.into ? peer.into->nbytes : peer.unexpected->envelope.nbytes)) {
      if (peer.into) finish(*peer.into);
      peer.into = nullptr;
      peer.unexpected = nullptr;
    }
    peer.in.take();
    peer.in.release();
    ring(from);
    moved = true;
  }
  return moved;
}

// A message begins to arrive: it goes to the receive that waits for it, or is kept until there is one. std::bad_alloc:
// it has yet to begin.
bool Exchange::open(int from, const Piece& piece) {
  auto& peer = peers_[from];
  Envelope envelope{from, piece.tag, piece.dtype, piece.total, peer.came + 1, piece.first == 2};
  if (auto receive = matching_.claim(envelope)) {
    if (!give(envelope, *receive)) return false;
    peer.into = receive;
  } else {
    peer.unexpected = &matching_.keep(envelope);
  }
  peer.came++;
  return true;
}

void Exchange::send_to_self(Operation& send) {
  Envelope envelope{endpoint_.rank(), send.tag, send.dtype, send.nbytes, 0, send.synchronous};
  if (auto receive = matching_.claim(envelope)) {
    if (!give(envelope, *receive)) return;
    if (send.nbytes) move_bytes(receive->data, send.data, send.nbytes);
    finish(*receive);
  } else {
    auto& unexpected = matching_.keep(envelope);
    unexpected.moved = send.nbytes;
    if (send.nbytes) copy_bytes(unexpected.bytes.get(), send.data, send.nbytes);
  }
  finish(send);
}

// Hands over what was kept; if it is not all there, the rest goes where it belongs at once.
void Exchange::hand(UnexpectedMessage& unexpected, Operation& receive) {
  if (!give(unexpected.envelope, receive)) return;
  auto& peer = peers_[unexpected.envelope.source];
  if (peer.unexpected == &unexpected) {
    peer.unexpected = nullptr;
    peer.into = &receive;
  }
  UnexpectedMessage taken = matching_.take(unexpected);
  receive.moved = taken.moved;
  if (taken.moved) copy_bytes(receive.data, taken.bytes.get(), taken.moved);
  if (receive.moved == receive.nbytes) finish(receive);
}

// Makes it the receive's message. False, and the group has failed, if it does not fit.
bool Exchange::give(const Envelope& envelope, Operation& receive) {
  bool fits = receive.length == Length::any || envelope.nbytes == receive.nbytes ||
              (receive.length == Length::at_most && envelope.nbytes < receive.nbytes);
  if (!fits || envelope.dtype != receive.dtype) {
    auto of = [](int type) {
      return " of " + (type < dtypes ? std::string(dtype_name(type)) : "opaque type " + std::to_string(type));
    };
    auto expected = receive.length == Length::any ? "anything" : std::to_string(receive.nbytes) + " bytes";
    if (receive.length == Length::at_most) expected = "at most " + expected;
    endpoint_.health().report_failure(
        Failure::mismatch, -1,
        endpoint_.name(envelope.source) + " sent " + std::to_string(envelope.nbytes) + " bytes" + of(envelope.dtype) +
            (envelope.tag < 0 ? " by " + own_name(envelope.tag) : " with tag " + std::to_string(envelope.tag)) +
            " where " + endpoint_.name(endpoint_.rank()) + " receives " + expected + of(receive.dtype));
    return false;
  }
  receive.peer = envelope.source;
  receive.tag = envelope.tag;
  receive.nbytes = envelope.nbytes;
  receive.number = envelope.number;
  receive.started = true;
  if (envelope.synchronous) acknowledge(envelope);
  return true;
}

// Once: a thread that comes from the register of those that help holds its lock.
void Exchange::help_others() {
  if (!std::exchange(enlisted_, true)) enlist();
}

void Exchange::start_progress_thread() {
  if (progress_thread_.started()) return;
  endpoint_.segment().member(endpoint_.rank()).has_progress_thread.store(1);
  progress_thread_.start();
}

// Answers a synchronous send. Messages of one tag between two ranks stay in order, and so do their answers.
void Exchange::acknowledge(const Envelope& envelope) {
  std::erase_if(acknowledgements_, [](auto& o) { return o->complete; });
  Operation answer{true, envelope.source, first_acknowledgement + envelope.tag, nullptr, 0, envelope.dtype};
  auto kept = acknowledgements_.emplace_back(std::make_unique<Operation>(std::move(answer))).get();
  kept->posted = true;
  unfinished_.fetch_add(1);
  begin(*kept);
  if (kept->complete || closed_) return;
  // The pipe is full. A rank that makes blocking calls alone has nobody who goes on with it.
  help_others();
  try {
    start_progress_thread();
  } catch (const std::system_error&) {  // its own calls go on with it, and end it before it leaves
    return;
  }
  progress_thread_.expect_ring();
  send_some(envelope.source);
}

void Exchange::end_acknowledgements(std::int64_t limit_ns) {
  auto under_way = [this](auto& o) { return !o->complete && !endpoint_.health().left(o->peer); };
  for (auto until_ns = now_ns() + limit_ns; now_ns() < until_ns; usleep(100)) {
    std::unique_lock lock(mutex_);
    if (std::ranges::none_of(acknowledgements_, under_way) || endpoint_.health().failed()) return;
    move_all(lock);
  }
}

// Takes an operation back; false if that leaves half a message behind, or there is no memory for what has come of a
// receive's, which arrives once more.
bool Exchange::withdraw(Operation& o) {
  if (o.complete) return true;
  if (o.is_send) {
    std::erase(peers_[o.peer].sends, &o);
    return !o.started;
  }
  if (!o.started) {
    matching_.withdraw(o);
    return true;
  }
  auto& peer = peers_[o.peer];
  peer.into = nullptr;
  try {
    auto& unexpected = matching_.keep({o.peer, o.tag, o.dtype, o.nbytes, o.number});
    unexpected.moved = o.moved;
    copy_bytes(unexpected.bytes.get(), o.data, o.moved);
    peer.unexpected = &unexpected;
    o.started = false;
    o.moved = 0;
    if (auto next = matching_.claim(unexpected.envelope)) hand(unexpected, *next);
    return true;
  } catch (const std::bad_alloc&) {
    peer.refused = true;
    return false;
  }
}

}  // namespace ringtree
