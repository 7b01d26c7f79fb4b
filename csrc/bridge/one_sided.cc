// The part of the bridge that serves one-sided access to ranks of other hosts: what is put goes to its place as it
// arrives, what is asked for is sent from where it lies, and signals count behind what was put before them.
#include <algorithm>
#include <cstring>
#include <deque>
#include <utility>

#include "bridge/bridge.h"
#include "bridge/heads.h"
#include "kernels/copies.h"

namespace ringtree {

namespace {

constexpr std::size_t chunk_bytes = 256 << 10;       // of one frame
constexpr std::size_t under_way_bytes = 4ull << 20;  // that may be on their way to, or from, a peer

struct Accessing : Situation {
  explicit Accessing(const char* what) : what(what) {}
  std::string where() const override { return what; }
  bool abandon() override { return true; }  // what is under way has memory of its own
  const char* what;
};

auto room_for(const std::atomic<std::size_t>& nbytes) {
  return Question([](auto& nbytes) { return nbytes.load(std::memory_order_relaxed) < under_way_bytes; }, &nbytes);
}

}  // namespace

void Bridge::add_window(std::byte* own, std::size_t nbytes) {
  std::lock_guard lock(mutex_);
  windows_.push_back({own, nbytes});
}

std::byte* Bridge::in_own_window(const Frame& frame) {
  auto head = head_of<AccessHead>(frame);
  if (head.window >= windows_.size()) return nullptr;
  auto& window = windows_[head.window];
  bool within = head.offset <= window.nbytes && head.nbytes <= window.nbytes - head.offset;
  return within && head.nbytes <= chunk_bytes ? window.own + head.offset : nullptr;
}

Frame Bridge::access_frame(int to, Frame::Kind kind, std::uint64_t number, const AccessHead& head) {
  auto frame = frame_to(to, kind);
  frame.number = number;
  std::memcpy(frame.head.data(), &head, sizeof head);
  return frame;
}

// A thread that puts or gets: the bridge does not end before it is through.
struct Bridge::Access {
  explicit Access(Bridge& bridge) : bridge(bridge) {
    std::lock_guard lock(bridge.mutex_);
    bridge.check_open();
    bridge.in_access_.fetch_add(1, std::memory_order_relaxed);
  }
  ~Access() { bridge.in_access_.fetch_sub(1, std::memory_order_release); }
  Bridge& bridge;
};

void Bridge::check_open() const {
  if (takes_no_access_) throw endpoint_.health().closed();
}

void Bridge::end_accesses() {
  {
    std::lock_guard lock(mutex_);
    takes_no_access_ = true;
  }
  while (in_access_.load(std::memory_order_acquire) > 0) usleep(100);
}

// Returns when the bytes are copied, and all but the last few of them sent.
void Bridge::put(int to, int window, std::size_t offset, std::span<const std::byte> source, Hooks& hooks) {
  Access access(*this);
  auto& peer = *peers_[to];
  Accessing situation("put");
  while (!source.empty()) {
    auto chunk = source.first(std::min(source.size(), chunk_bytes));
    endpoint_.until(room_for(peer.put_bytes), to, situation, hooks);
    auto copy = std::make_unique<std::byte[]>(chunk.size());
    copy_bytes(copy.get(), chunk.data(), chunk.size());
    std::lock_guard lock(mutex_);
    check_open();
    if (!room_for(peer.put_bytes)()) continue;  // another thread was there first
    guard([&] {
      AccessHead head{static_cast<std::uint32_t>(window), static_cast<std::uint32_t>(chunk.size()), offset};
      auto frame = access_frame(to, Frame::Kind::put, ++accesses_, head);
      frame.nbytes = head.nbytes;
      peer.put_bytes.fetch_add(chunk.size(), std::memory_order_relaxed);
      auto payload = (peer.puts[frame.number] = std::move(copy)).get();
      wire_->send(to, frame, payload);
    });
    source = source.subspan(chunk.size());
    offset += chunk.size();
  }
  settle();
}

void Bridge::get(int from, int window, std::size_t offset, std::span<std::byte> target, Hooks& hooks) {
  Access access(*this);
  std::deque<std::pair<std::shared_ptr<Fetched>, std::span<std::byte>>> asked;
  Accessing situation("get");
  for (std::size_t done = 0; done < target.size() || !asked.empty();) {
    if (done < target.size() && asked.size() < under_way_bytes / chunk_bytes) {
      auto chunk = target.subspan(done, std::min(target.size() - done, chunk_bytes));
      if (auto fetched = ask(from, window, offset + done, chunk.size())) {
        asked.emplace_back(std::move(fetched), chunk);
        done += chunk.size();
        continue;
      }
    }
    if (asked.empty()) {  // other threads have asked for as much as may be under way
      endpoint_.until(room_for(peers_[from]->get_bytes), from, situation, hooks);
      continue;
    }
    auto& [fetched, chunk] = asked.front();
    Question there([](auto& complete) { return complete.load(std::memory_order_acquire); }, &fetched->complete);
    endpoint_.until(there, from, situation, hooks);
    copy_bytes(chunk.data(), fetched->bytes.get(), chunk.size());
    asked.pop_front();
  }
}

// nullptr where as much is under way from that peer as may be.
std::shared_ptr<Bridge::Fetched> Bridge::ask(int from, int window, std::size_t offset, std::size_t nbytes) {
  std::lock_guard lock(mutex_);
  check_open();
  auto& under_way = peers_[from]->get_bytes;
  if (under_way.load(std::memory_order_relaxed) >= under_way_bytes) return nullptr;
  auto fetched = std::make_shared<Fetched>(from, nbytes);
  under_way.fetch_add(nbytes, std::memory_order_relaxed);
  guard([&] {
    AccessHead head{static_cast<std::uint32_t>(window), static_cast<std::uint32_t>(nbytes), offset};
    auto frame = access_frame(from, Frame::Kind::get, ++accesses_, head);
    fetched_[frame.number] = fetched;
    wire_->send(from, frame, nullptr);
  });
  return fetched;
}

// The answer to a get. It goes out from the window, which lives as long as the bridge.
bool Bridge::answer(int to, const Frame& asked) {
  auto from = in_own_window(asked);
  if (!from) return false;
  auto frame = access_frame(to, Frame::Kind::got, asked.number, head_of<AccessHead>(asked));
  frame.nbytes = head_of<AccessHead>(asked).nbytes;
  wire_->send(to, frame, from);
  return true;
}

// What an answer is to; nullptr where nobody asked.
std::shared_ptr<Bridge::Fetched> Bridge::wanted(int from, const Frame& frame) {
  auto found = fetched_.find(frame.number);
  if (found == fetched_.end() || found->second->from != from || found->second->nbytes != frame.nbytes) return nullptr;
  return found->second;
}

bool Bridge::fetched(int from, const Frame& frame) {
  auto fetched = wanted(from, frame);
  if (!fetched) return false;
  fetched_.erase(frame.number);
  peers_[from]->get_bytes.fetch_sub(fetched->nbytes, std::memory_order_relaxed);
  fetched->complete.store(true, std::memory_order_release);
  return arrived_ = true;
}

// What is sent here goes before the bridge's farewell, as the end of accesses takes the mutex too.
void Bridge::signal(int to, int index) {
  std::lock_guard lock(mutex_);
  check_open();
  guard([&] {
    auto frame = frame_to(to, Frame::Kind::signal);
    frame.number = static_cast<std::uint64_t>(index);
    wire_->send(to, frame, nullptr);
  });
  settle();
}

// A signal is behind what was put before it: frames arrive in order.
bool Bridge::signalled(int from, const Frame& frame) {
  if (frame.number >= cache_line / sizeof(Counter)) return false;
  segment_.signals(from, rank_)[frame.number].fetch_add(1, std::memory_order_release);
  return arrived_ = true;
}

}  // namespace ringtree
