// Frames of any bytes, as a wire reports them: whatever ranks of another host send, this rank reads and writes nothing
// but its own memory.
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <list>

#include "fuzz/input.h"
#include "fuzz/rank.h"

namespace {

using fuzz::Input, fuzz::Seed;
using ringtree::Frame;

// A wire that brings what the input says, one frame at a time.
class Brought : public ringtree::Wire {
 public:
  Brought(Input& input, Sink& sink) : input_(input), sink_(sink), event_(eventfd(0, EFD_CLOEXEC)) {}
  ~Brought() override { close(event_); }

  bool progress() override {
    if (leaving_ || input_.empty()) return false;
    int peer = 1 + input_.byte() % 2;
    auto frame = frames_.take(peer, input_);
    if (lost_[peer]) return true;
    std::shared_ptr<void> keeps;
    auto place = frame.nbytes ? sink_.place(peer, frame, keeps) : nullptr;
    if (place) {
      std::memset(place, 'x', frame.nbytes);
      input_.fill(place, frame.kind == Frame::Kind::waits ? frame.nbytes : std::min<std::size_t>(frame.nbytes, 4));
    }
    if ((frame.nbytes && !place) || !sink_.arrived(peer, frame)) {
      lost_[peer] = true;
      sink_.lost(peer, "sent what nobody asked for");
    }
    return true;
  }
  void send(int peer, const Frame& frame, const std::byte* payload) override {
    if (payload) fuzz::touch(payload, frame.nbytes);
    if (payload) sink_.sent(peer, frame);
  }
  void send(int, const Frame&, std::string) override {}
  void keep_payloads() override {}
  bool can_keep_payloads() const override { return true; }
  void connect(int) override {}
  void tick() override {}
  int descriptor() const override { return event_; }
  bool busy() const override { return false; }
  bool connected(int) const override { return true; }
  void leave() override { leaving_ = true; }
  bool finished() const override { return true; }
  void depart() override {}

 private:
  Input& input_;
  Sink& sink_;
  int event_;
  bool leaving_ = false;
  std::array<bool, fuzz::ranks> lost_{};
  fuzz::Frames frames_;
};

struct Sent {
  Frame::Kind kind;
  int flags;
  std::uint16_t nbytes;
  int number, call, length;
  std::uint64_t far = 0;  // the number, with Frames::any_number
};

void put(Seed& seed, const Sent& sent) {
  seed.small(0, sent.kind, sent.flags).put(sent.nbytes).small(sent.number, 0, sent.call, sent.length);
  if (sent.flags & fuzz::Frames::any_number) seed.put(sent.far);
  if (sent.nbytes) seed.put(std::uint32_t{0});
}

}  // namespace

std::vector<std::string> fuzz::seeds() {
  using Kind = Frame::Kind;
  using Flag = Frames::Flag;
  std::vector<std::string> seeds;
  auto add = [&](std::initializer_list<int> act, std::initializer_list<Sent> frames) {
    Seed seed;
    for (int part : act) seed.small(part);
    for (auto& sent : frames) put(seed, sent);
    seeds.push_back(seed.bytes);
  };
  add({receives, 0, 4}, {{Kind::descriptor, Flag::inlined, 224, 0, 1, 4}});
  add({receives, 0, 7}, {{Kind::descriptor, 0, 8192, 0, 1, 7}, {Kind::credit, 0, 0, 0, 0, 0}});
  add({waits_for_message, 0, 4, 1}, {{Kind::piece, Flag::begins, 224, 0, 0, 4}});
  add({posts, 0, 8, 129, waits_for_message, 0, 8, 129},
      {{Kind::piece, Flag::begins, 60000, 0, 0, 8}, {Kind::piece, 0, 10000, 0, 0, 8}});
  add({gets, 0, 7}, {{Kind::got, 0, 8192, 1, 0, 0}});
  add({puts, 0, 7, advances, 0, 0}, {{Kind::put, 0, 100, 3, 1, 0}});
  add({advances, 0, 0}, {{Kind::get, 0, 0, 9, 1, 0}});
  add({advances, 0, 0}, {{Kind::signal, 0, 0, 3, 0, 0}});
  add({receives, 0, 4}, {{Kind::failure, 0, 40, 2, 0, 0}});
  add({receives, 0, 4}, {{Kind::cause, 0, 40, 1, 0, 0}, {Kind::left, 0, 0, 0, 0, 0}, {Kind::gone, 0, 0, 0, 0, 0}});
  add({receives, 0, 4}, {{Kind::call, 0, 0, 1, 1, 5}});
  for (int rank : {1, 2, 0, -1}) {
    Seed waits;
    waits.small(waits_for_message, 0, 4, 1, 0, Kind::waits, 0).put(std::uint16_t{2 * sizeof(ringtree::WaitHead)});
    waits.small(0, 0, 0, 0);
    for (int peer : {2, -1}) waits.put(ringtree::WaitHead{rank, peer, 1 << 30, 1 << 30, 0, "recv"});
    seeds.push_back(waits.small(0, Kind::ask_waits, 0).put(std::uint16_t{0}).small(0, 0, 0, 0).bytes);
  }
  // Faults that were found: a message that nothing began, one longer than it has announced, one whose sender waits for
  // an answer that no tag can have, a failure of a rank that does not exist.
  add({waits_for_message, 0, 4, 1}, {{Kind::piece, 0, 224, 0, 0, 4}});
  add({waits_for_message, 0, 1, 1}, {{Kind::piece, Flag::begins, 60000, 0, 0, 1}});
  Seed answer;
  answer.small(waits_for_message, 0, 4, 1, 0, Kind::piece, Flag::any_head).put(std::uint16_t{224}).small(0, 0, 0, 0);
  answer.put(ringtree::PieceHead{224, -5, dtype, 2}).put(std::uint32_t{0}).put(std::uint16_t{0});
  seeds.push_back(answer.bytes);
  add({receives, 0, 4}, {{Kind::failure, Flag::any_number, 40, 0, 0, 0, 0x7000000000000002}});
  return seeds;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t nbytes) {
  Input input(data, nbytes);
  fuzz::Rank rank([&](int, ringtree::Wire::Sink& sink) { return std::make_unique<Brought>(input, sink); });
  for (int k = 0; k < 40 && !input.empty() && rank.act(input); k++) continue;
  return 0;
}
