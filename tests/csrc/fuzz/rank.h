// A rank with two peers on another host, and one beside it, and what it does while they send what they like: the
// fuzzers of frames and of connections.
#pragma once

#include <cstdlib>
#include <map>
#include <new>
#include <stdexcept>

#include "bridge/bridge.h"
#include "bridge/heads.h"
#include "fuzz/input.h"
#include "interpreter/interpret.h"
#include "messages/exchange.h"
#include "programs.h"

// AddressSanitizer's own ends the process at a length that no memory has, which a message may announce, where every
// other throws.
void* operator new[](std::size_t nbytes) {
  auto at = nbytes < std::size_t{1} << 32 ? std::malloc(nbytes) : nullptr;
  return at ? at : throw std::bad_alloc();
}
void operator delete[](void* at) noexcept {
  std::free(at);
}
void operator delete[](void* at, std::size_t) noexcept {
  std::free(at);
}

namespace fuzz {

inline constexpr int ranks = 4, slots = 4, dtype = static_cast<int>(ringtree::Dtype::uint8);
inline constexpr std::size_t slot_bytes = 8192, window_bytes = 9000;

// The bytes of a message that the rank asks for, by a number.
inline std::size_t length(int number) {
  constexpr std::size_t lengths[] = {0, 8, 24, 25, 224, 225, 4096, 8192, 70'000};
  return lengths[number % std::size(lengths)];
}

inline ringtree::Fingerprint print_of(std::size_t nbytes) {
  return {nbytes, ringtree::pack("all_reduce", dtype, -1, -1), 0};
}

enum Act { advances, receives, posts, tests, gets, puts, waits_for_message, acts };

class Rank {
 public:
  using MakeWire = std::function<std::unique_ptr<ringtree::Wire>(int rank, ringtree::Wire::Sink& sink)>;

  explicit Rank(MakeWire wire)
      : layout_(ranks, slots, slot_bytes),
        memory_(layout_.total),
        segment_(memory_.at(), layout_),
        window_(window_bytes),
        endpoint_(segment_, 0, members(), options()),
        bridge_(endpoint_, {{0, 1, 1, 0}, std::move(wire)}),
        interpreter_(endpoint_, 1 << 20, 0),
        exchange_(endpoint_) {
    window_.shrink_to_fit();
    bridge_.add_window(window_.data(), window_.size());
  }
  ~Rank() {
    endpoint_.stopping = true;
    exchange_.close();
    bridge_.close();
  }

  void advance() { bridge_.advance(); }
  // False: nothing more can be done, as the group has failed.
  bool act(Input& input) {
    auto act = static_cast<Act>(input.byte() % acts);
    try {
      step(act, input);
      return true;
    } catch (const ringtree::Error&) {
    } catch (const ringtree::Interrupted&) {
      return act == gets || act == puts;
    } catch (const std::bad_alloc&) {  // of a message that is as long as no memory
    }
    return false;
  }

 private:
  static ringtree::InheritedLiveness members() {
    ringtree::InheritedLiveness members;
    members.bytes = {0, 1, 2, 3};
    static int fd = memfd_create("waits", MFD_CLOEXEC);
    if (ftruncate(fd, ranks * ringtree::LongWaits::page) == 0)
      members.waits = std::make_shared<ringtree::LongWaits>(fd, 0, 0);
    return members;
  }
  static ringtree::Endpoint::Options options() {
    ringtree::Endpoint::Options options;
    options.timeout_s = 1;
    options.oversubscribed = options.threads = true;
    options.names = {"0", "1", "2", "3"};
    return options;
  }

  void step(Act act, Input& input) {
    int peer = 1 + input.byte() % 2;
    auto nbytes = length(input.byte());
    switch (act) {
      case advances:
        bridge_.advance();
        break;
      case receives:
        receive(peer, std::min(nbytes, slot_bytes));
        break;
      case posts:
      case waits_for_message: {
        auto kind = input.byte();
        auto& memory = buffers_.emplace_back(nbytes);
        memory.shrink_to_fit();
        ringtree::Operation operation{
            kind % 4 == 3, kind % 8 == 4 ? ringtree::any : peer,        kind % 16 - 1, memory.data(), memory.size(),
            dtype,         static_cast<ringtree::Length>(kind / 64 % 3)};
        if (operation.is_send && operation.tag < 0) operation.tag = 0;
        if (act == posts)
          posted_.push_back(exchange_.post(std::move(operation)));
        else
          exchange_.run({&operation, 1}, 1, hooks_);
        break;
      }
      case tests:
        for (auto number : posted_) exchange_.test(number);
        break;
      case gets: {
        std::vector<std::byte> target(std::min(nbytes, window_bytes));
        bridge_.get(peer, 0, 0, target, hooks_);
        touch(target.data(), target.size());
        break;
      }
      case puts: {
        std::vector<std::byte> source(std::min(nbytes, window_bytes));
        bridge_.put(peer, 0, 0, source, hooks_);
        break;
      }
      default:
        break;
    }
  }

  // A collective in which this rank receives once, and sends as much back.
  void receive(int peer, std::size_t nbytes) {
    programs::Program program;
    program.receive(peer, programs::output(0));
    program.send(peer, 0, programs::output(0));
    const std::int64_t size = static_cast<std::int64_t>(nbytes), offset = 0;
    ringtree::Binding binding;
    binding.sizes = {&size, 1};
    binding.input_offsets = binding.output_offsets = {&offset, 1};
    binding.window = size;
    binding.dtype = dtype;
    binding.count = size;
    binding.collective = "all_reduce";
    std::vector<std::byte> data(nbytes);
    data.shrink_to_fit();
    auto plan = std::make_shared<ringtree::PreparedProgram>(
        bind(program.encoded(), binding, {0, ranks, layout_.slot_bytes, layout_.overflow_bytes, layout_.depth}));
    interpreter_.run(plan, ++calls_, data.data(), data.data(), hooks_);
    touch(data.data(), nbytes);
  }

  ringtree::Layout layout_;
  Memory memory_;
  ringtree::Segment segment_;
  std::vector<std::byte> window_;
  std::list<std::vector<std::byte>> buffers_;
  std::vector<std::uint64_t> posted_;
  Impatient hooks_;
  std::uint64_t calls_ = 0;
  ringtree::Endpoint endpoint_;
  ringtree::Bridge bridge_;
  ringtree::Interpreter interpreter_;
  ringtree::Exchange exchange_;
};

// Frames as their bytes say: of a number that is due, or of any; with a head that fits, or any.
class Frames {
 public:
  struct Head {
    std::uint8_t kind, flags;
    std::uint16_t nbytes;
    std::uint8_t number, credit, call, length;
  };
  enum Flag { far = 1, any_number = 2, any_credit = 4, any_head = 8, long_payload = 16, begins = 32, inlined = 64 };

  ringtree::Frame take(int peer, Input& input) {
    using Kind = ringtree::Frame::Kind;
    auto head = input.take<Head>();
    ringtree::Frame frame{};
    frame.kind = static_cast<Kind>(head.kind % 16);
    frame.nbytes = head.flags & long_payload ? input.take<std::uint32_t>() : head.nbytes;
    bool message = frame.kind == Kind::descriptor || frame.kind == Kind::piece;
    frame.number = message ? ++numbers_[{peer, head.kind % 16}] + head.number * (head.flags & far) : head.number;
    if (head.flags & any_number) frame.number = input.take<std::uint64_t>();
    frame.lane_credit = frame.pipe_credit = head.flags & any_credit ? input.take<std::uint32_t>() : head.credit;
    if (head.flags & any_head)
      input.fill(frame.head.data(), frame.head.size());
    else
      fill_head(frame, head);
    return frame;
  }

 private:
  void fill_head(ringtree::Frame& frame, const Head& from) {
    auto put = [&](const auto& head) { std::memcpy(frame.head.data(), &head, sizeof head); };
    using Kind = ringtree::Frame::Kind;
    if (frame.kind == Kind::descriptor || frame.kind == Kind::call)
      put(ringtree::DescriptorHead{print_of(length(from.length)), from.call,
                                   (from.flags & inlined ? 0u : 1u << 30) | (frame.nbytes & ((1u << 30) - 1))});
    if (frame.kind == Kind::piece)
      put(ringtree::PieceHead{length(from.length), from.call % 16, static_cast<std::int16_t>(dtype),
                              static_cast<std::uint16_t>(from.flags & begins ? 1 + from.call / 128 : 0)});
    if (frame.kind == Kind::put || frame.kind == Kind::get)
      put(ringtree::AccessHead{0, frame.kind == Kind::put ? frame.nbytes : from.nbytes, from.call * 37u});
  }

  std::map<std::pair<int, int>, std::uint64_t> numbers_;
};

}  // namespace fuzz
