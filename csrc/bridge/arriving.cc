// The part of the bridge that takes what arrives: messages into the lanes of this host, credits, and reports on peers.
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <span>
#include <string>
#include <system_error>
#include <utility>

#include "bridge/bridge.h"
#include "bridge/heads.h"
#include "interpreter/recorder.h"
#include "memory/limits.h"
#include "messages/matching.h"

namespace ringtree {

namespace {

// Whether a message of that number may come: long ones come in any order.
template <class Lane>
bool expected(const Lane& lane, std::uint64_t number, std::uint64_t depth) {
  return number > lane.published() && number - lane.given_back() <= depth;
}

std::string text_of(const Frame& frame, std::span<const char> text) {
  return {text.data(), frame.nbytes};
}

}  // namespace

// Where bytes from other hosts are staged: its pages exist from their first use on.
void Bridge::map_staging() {
  staging_at_.resize(peers_.size());
  auto& nbytes = staging_bytes_;
  for (std::size_t peer = 0; peer < peers_.size(); peer++) {
    if (!peers_[peer]) continue;
    staging_at_[peer] = nbytes;
    nbytes += segment_.layout().depth * segment_.layout().slot_bytes;
  }
  if (!nbytes) return;
  void* at = mmap(nullptr, nbytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (int error = errno; at == MAP_FAILED)
    throw std::system_error(error, std::generic_category(), "cannot map staging for other hosts" + limit_behind(error));
  staging_ = static_cast<std::byte*>(at);
}

std::byte* Bridge::staging(int peer) {
  return staging_ + staging_at_[peer];
}

std::byte* Bridge::staged(int peer, std::uint64_t number) {
  auto& layout = segment_.layout();
  return staging(peer) + ((number - 1) & (layout.depth - 1)) * layout.slot_bytes;
}

std::byte* Bridge::place(int from, const Frame& frame, std::shared_ptr<void>& keeps) {
  if (!serves(from)) return nullptr;
  auto& peer = *peers_[from];
  switch (frame.kind) {
    case Frame::Kind::descriptor:
      if (!expected(peer.lane_arrived, frame.number, segment_.layout().depth)) return nullptr;
      if (frame.nbytes > segment_.layout().slot_bytes) return nullptr;
      if (!peer.lane_arrived.opened) segment_.open(peer.lane_arrived, from, rank_);
      if (protocol_of(frame) != Protocol::inlined) return staged(from, frame.number);
      return frame.nbytes <= Descriptor::room ? peer.lane_arrived.blank().payload : nullptr;
    case Frame::Kind::piece: {
      if (!expected(peer.pipe_arrived, frame.number, segment_.layout().pieces)) return nullptr;
      if (frame.nbytes > segment_.layout().piece_bytes) return nullptr;
      if (!peer.pipe_arrived.opened) segment_.open(peer.pipe_arrived, from, rank_);
      if (frame.nbytes <= Piece::room) return peer.pipe_arrived.blank().payload;
      auto index = (frame.number - 1) % segment_.layout().pieces;
      return segment_.existing(segment_.piece_staging(from, rank_, index, frame.nbytes), frame.nbytes);
    }
    case Frame::Kind::put:
      return frame.nbytes == head_of<AccessHead>(frame).nbytes ? in_own_window(frame) : nullptr;
    case Frame::Kind::got: {
      auto fetched = wanted(from, frame);
      keeps = fetched;
      return fetched ? fetched->bytes.get() : nullptr;
    }
    case Frame::Kind::failure:
    case Frame::Kind::cause:
      if (frame.nbytes > (frame.kind == Frame::Kind::cause ? sizeof(ReportedCause::text) : sizeof(Poison::text)))
        return nullptr;
      return reinterpret_cast<std::byte*>(peer.text.data());
    case Frame::Kind::waits:
      if (frame.nbytes % sizeof(WaitHead) != 0 || frame.nbytes > most_waits * sizeof(WaitHead)) return nullptr;
      return peer.waits.data();
    default:
      return nullptr;
  }
}

bool Bridge::arrived(int from, const Frame& frame) {
  if (!serves(from)) return false;
  auto& peer = *peers_[from];
  switch (frame.kind) {
    case Frame::Kind::descriptor:
      take_credits(peer, frame);
      return publish(from, frame, peer);
    case Frame::Kind::piece:
      take_credits(peer, frame);
      return publish_piece(from, frame, peer);
    case Frame::Kind::credit:
    case Frame::Kind::put:
      take_credits(peer, frame);
      return true;
    case Frame::Kind::get:
      take_credits(peer, frame);
      return answer(from, frame);
    case Frame::Kind::got:
      take_credits(peer, frame);
      return fetched(from, frame);
    case Frame::Kind::signal:
      take_credits(peer, frame);
      return signalled(from, frame);
    case Frame::Kind::call:
      take_credits(peer, frame);
      called(from, frame);
      return true;
    case Frame::Kind::left:
      endpoint_.health().report_left_here(from);
      arrived_ = true;
      return true;
    case Frame::Kind::gone:
      endpoint_.health().report_left(from);
      return true;
    case Frame::Kind::failure:
      return take_failure(frame, peer);
    case Frame::Kind::cause:
      if (frame.number & by_error) endpoint_.health().report_error(from);
      endpoint_.health().report_cause(from, {static_cast<std::int32_t>(static_cast<std::uint32_t>(frame.number)),
                                             text_of(frame, peer.text), now_ns()});
      return true;
    case Frame::Kind::ask_waits:
      send_waits(from);
      return true;
    case Frame::Kind::waits:
      return take_waits(frame, peer);
    default:
      return true;
  }
}

// A rank or a kind of failure that nobody knows of is not passed on.
bool Bridge::take_failure(const Frame& frame, const Peer& peer) {
  auto kind = static_cast<Failure>(frame.number & 0xff);
  auto rank = static_cast<std::int32_t>(frame.number >> 32);
  if (kind < Failure::mismatch || kind > Failure::poisoned || rank < -1 || rank >= endpoint_.ranks()) return false;
  endpoint_.health().report_foreign_failure(kind, rank, text_of(frame, peer.text));
  return arrived_ = true;
}

bool Bridge::publish(int from, const Frame& frame, Peer& peer) {
  auto& lane = peer.lane_arrived;
  if (!lane.room() || frame.number != lane.published() + 1) return false;
  if (!lane.opened) segment_.open(lane, from, rank_);
  auto head = head_of<DescriptorHead>(frame);
  auto& descriptor = lane.blank();
  descriptor.print = head.print;
  descriptor.call = head.call;
  bool inlined = protocol_of(frame) == Protocol::inlined;
  descriptor.set_protocol(inlined ? Protocol::inlined : Protocol::copy, frame.nbytes);
  if (!inlined) {
    descriptor.location = {static_cast<std::uint64_t>(staged(from, frame.number) - staging(from)), 0};
    peer.lane_staged = frame.number;
  }
  peer.arrivals[(frame.number - 1) & (segment_.layout().depth - 1)] = Ticks::now();
  lane.publish();
  return arrived_ = true;
}

// The receiver believes a piece of a host's own ranks. One of another host's must begin a message where none is under
// way, and hold no more than is missing of it.
bool Bridge::publish_piece(int from, const Frame& frame, Peer& peer) {
  auto& pipe = peer.pipe_arrived;
  if (!pipe.room() || frame.number != pipe.published() + 1) return false;
  if (!pipe.opened) segment_.open(pipe, from, rank_);
  auto head = head_of<PieceHead>(frame);
  if (head.first > 2 || (head.first != 0) != (peer.missing == 0)) return false;
  if (head.first == 2 && (head.tag < 0 || head.tag >= most_synchronous)) return false;
  auto missing = head.first ? head.total : peer.missing;
  if (frame.nbytes > missing || (frame.nbytes == 0 && missing > 0)) return false;
  peer.missing = missing - frame.nbytes;
  auto& piece = pipe.blank();
  piece.total = head.total;
  piece.tag = head.tag;
  piece.dtype = head.dtype;
  piece.first = head.first;
  piece.nbytes = frame.nbytes;
  if (frame.nbytes > Piece::room) peer.pipe_staged = frame.number;
  pipe.publish();
  return arrived_ = true;
}

// Written before the message was published, and again only when it has been given back.
std::uint64_t Bridge::arrival(int peer, std::uint64_t number) const noexcept {
  return peers_[peer]->arrivals[(number - 1) & (segment_.layout().depth - 1)];
}

// Credits count modulo 2^32; never more than are out.
void Bridge::take_credits(Peer& peer, const Frame& frame) {
  auto take = [](auto& lane, std::uint32_t credit) {
    auto given = credit - static_cast<std::uint32_t>(lane.released());
    for (auto left = std::min<std::uint64_t>(given < 1u << 31 ? given : 0, lane.held()); left > 0; left--)
      lane.release();
    return given != 0;
  };
  bool any = take(peer.lane_sent, frame.lane_credit);
  any |= take(peer.pipe_sent, frame.pipe_credit);
  arrived_ |= any;
}

// The bytes of a zero-copy message, or of a put, are with the network: they may be overwritten.
void Bridge::sent(int to, const Frame& frame) {
  if (frame.kind == Frame::Kind::put) {
    auto& peer = *peers_[to];
    peer.puts.erase(frame.number);
    peer.put_bytes.fetch_sub(frame.nbytes, std::memory_order_relaxed);
    arrived_ = true;
    return;
  }
  if (frame.kind != Frame::Kind::descriptor || protocol_of(frame) != Protocol::zero_copy) return;
  segment_.lane_copied(rank_, to).store(frame.number, std::memory_order_release);
  arrived_ = true;
}

void Bridge::lost(int peer, const std::string& why) {
  if (!serves(peer) || endpoint_.health().left(peer)) return;
  endpoint_.health().report_lost(peer, why);
  arrived_ = true;
}

}  // namespace ringtree
