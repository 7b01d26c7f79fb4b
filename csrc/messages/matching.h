// The matching of messages with receives: MPI's rules, and nothing about how bytes move.
//
// A receive takes the earliest message that fits; a message goes to the earliest posted receive that fits. Earliest is
// by arrival and by posting, over all senders and wildcards, so that messages between two ranks with one tag keep their
// order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <list>
#include <memory>
#include <string>
#include <vector>

namespace ringtree {

inline constexpr int any = -1;  // any source, any tag

// The acknowledgement of a synchronous send of tag t has tag first_acknowledgement + t. Such sends have tags from
// 0 on, below `most_synchronous`.
inline constexpr int first_acknowledgement = std::numeric_limits<int>::min();
inline constexpr int most_synchronous = 1 << 30;

// The name, in errors, of messages with a tag of the engine's users' own.
inline std::string own_name(int tag) {
  switch (tag) {
    case -2:
      return "copy";
    case -3:
      return "exchange_parts";
    case -4:
      return "reading of clocks";
    default:
      if (tag < first_acknowledgement / 2)
        return "acknowledgement of tag " + std::to_string(tag - first_acknowledgement);
      return "a message";  // of a layer on the communicator, which names its call itself
  }
}

// The length of message that a receive takes: as long as its memory; or shorter; or any, kept in memory of its own.
enum class Length { exact, at_most, any };

struct Operation {
  bool is_send;
  int peer;  // of a receive: may be `any`
  int tag;   // of a receive: may be `any`, which is any tag but those below 0 (the engine's users' own)
  std::byte* data;
  std::size_t nbytes;
  int dtype;  // or a number from `dtypes` on: a type that is only moved, and fits its own number
  Length length = Length::exact;

  // A receive that has begun has its message's peer, tag and nbytes.
  std::size_t moved = 0;
  bool started = false, complete = false;
  std::unique_ptr<std::byte[]> own{};  // Length::any: the payload
  bool posted = false;                 // the call that posted it does not wait for it
  bool synchronous = false;            // of a send: the receive that takes the message answers
  // While messages are recorded, in ticks:
  std::uint64_t handed_over = 0;  // when a send began,
  std::uint64_t stalled = 0;      // and since when the program waits for it; 0: it does not
  std::uint64_t number = 0;       // of its message

  // A receive of any length gets memory of its own for a message; std::bad_alloc: there is none, and it is as before.
  void make_room(std::size_t message_bytes) {
    if (length != Length::any) return;
    own.reset(new std::byte[message_bytes]);
    data = own.get();
  }
};

struct Envelope {
  int source, tag, dtype;
  std::size_t nbytes;
  std::uint64_t number = 0;  // among those from there, from 1 on
  bool synchronous = false;  // its sender waits to hear that a receive has taken it
};

// A message that came before anyone asked for it.
struct UnexpectedMessage {
  Envelope envelope;
  std::unique_ptr<std::byte[]> bytes;
  std::size_t moved = 0;
  std::uint64_t arrival = 0;
};

class Matching {
 public:
  explicit Matching(int ranks) : receives_(ranks + 1), unexpected_(ranks) {}

  // A receive waits for its message.
  void wait(Operation& receive);
  // Takes the earliest receive that waits for such a message, and makes room for it; nullptr if none does.
  // std::bad_alloc: it waits as before.
  Operation* claim(const Envelope& envelope);
  // Takes a receive back that waits.
  void withdraw(Operation& receive);

  // Keeps a message without a posted receive. The reference holds until it is taken.
  UnexpectedMessage& keep(const Envelope& envelope);
  // The earliest kept message that fits; nullptr if there is none.
  UnexpectedMessage* find(int source, int tag);
  // Takes it.
  UnexpectedMessage take(UnexpectedMessage& unexpected);

 private:
  struct Waiting {
    std::uint64_t since;
    Operation* receive;
  };
  using Queue = std::list<Waiting>;

  Queue& queue(int source) { return source == any ? receives_.back() : receives_[source]; }

  std::vector<Queue> receives_;  // by source, those from any at the end
  std::vector<std::list<UnexpectedMessage>> unexpected_;
  std::uint64_t clock_ = 0;
};

}  // namespace ringtree
