// A rank that closes hears that its peer on another host made another call before the last one, which both made. The
// peer has waited long in the last one, and so has announced it alone; what it sends is played by its wire.
#include <sys/eventfd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "bridge/heads.h"
#include "group/group.h"
#include "programs.h"

namespace {

using ringtree::CallHead;
using ringtree::Fingerprint;
using ringtree::Frame;
using ringtree::Group;

constexpr int ranks = 2, slots = 4, last = 2;
constexpr std::size_t slot_bytes = 1024;
constexpr std::int64_t soon_ns = 500'000'000;  // half of what a peer that never answers is waited for

void expect(bool right, const char* what) {
  if (right) return;
  std::fprintf(stderr, "last_calls: %s\n", what);
  std::abort();
}

// To a peer that calls as this rank does, but for `other`.
class Played : public ringtree::Wire {
 public:
  Played(Sink& sink, std::uint64_t other) : sink_(sink), other_(other) {}

  void send(int peer, const Frame& frame, const std::byte* payload) override {
    if (frame.kind == Frame::Kind::descriptor) called(ringtree::head_of<ringtree::DescriptorHead>(frame));
    if (frame.kind == Frame::Kind::call && ringtree::head_of<CallHead>(frame).of_all == 1 && frame.number == last)
      answer();
    if (payload) sink_.sent(peer, frame);
  }
  void send(int, const Frame&, std::string) override {}
  void keep_payloads() override {}
  bool can_keep_payloads() const override { return true; }
  void connect(int) override {}
  bool progress() override {
    if (coming_.empty()) return false;
    auto frame = coming_.front();
    coming_.pop_front();
    return sink_.arrived(1, frame);
  }
  void tick() override {}
  int descriptor() const override { return event_.fd(); }
  bool busy() const override { return false; }
  bool connected(int) const override { return true; }
  void leave() override {}
  bool finished() const override { return true; }
  void depart() override {}

 private:
  void called(const ringtree::DescriptorHead& head) {
    prints_[head.call] = head.print;
    if (head.call == other_) prints_[head.call].count++;
    if (head.call == last) announce(last, {0, 0});
  }
  void answer() {
    if (answered_) return;
    answered_ = true;
    announce(last - 1, {1, 1});
    announce(last, {1, 0});
  }
  void announce(std::uint64_t call, std::array<std::uint32_t, 2> of_all_and_earlier) {
    Frame frame{};
    frame.kind = Frame::Kind::call;
    frame.number = call;
    CallHead head{prints_[call], of_all_and_earlier[0], of_all_and_earlier[1]};
    std::memcpy(frame.head.data(), &head, sizeof head);
    coming_.push_back(frame);
  }

  Sink& sink_;
  std::uint64_t other_;
  bool answered_ = false;
  std::array<Fingerprint, last + 1> prints_{};
  std::deque<Frame> coming_;
  ringtree::FileDescriptor event_{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
};

// What a rank hears that closes after broadcasts of its own, which it only sent.
std::string heard(std::uint64_t other) {
  ringtree::Layout layout{ranks, slots, slot_bytes};
  std::unique_ptr<void, decltype(&std::free)> memory{std::aligned_alloc(4096, layout.total), std::free};
  std::memset(memory.get(), 0, layout.total);
  Group::Options options{slots, slot_bytes, true, {}};
  options.endpoint.timeout_s = 5;
  options.network =
      ringtree::Network{{0, 1}, [&](int, ringtree::Wire::Sink& sink) { return std::make_unique<Played>(sink, other); }};
  Group group(memory.get(), 0, ranks, options);
  std::vector<int> data{1, 2, 3};
  for (int call = 1; call <= last; call++) programs::broadcast(group, 0, ranks, 0, data);
  auto begun_ns = ringtree::now_ns();
  std::string found;
  try {
    group.close();
  } catch (const ringtree::Error& error) {
    found = error.what();
  }
  expect(ringtree::now_ns() - begun_ns < soon_ns, "a rank waited for what its peer had announced");
  return found;
}

}  // namespace

int main() {
  expect(heard(0).empty(), "a rank heard of calls that were the same");
  expect(heard(last).find("as call 2") != std::string::npos, "a rank did not hear of the last call");
  expect(heard(last - 1).find("as call 1") != std::string::npos, "a rank did not hear of the call before the last");
  std::puts("last_calls: who closes hears of another call before the last one, though the last was announced alone");
}
