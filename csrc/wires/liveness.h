// When a peer is out of reach: what every wire holds itself to.
#pragma once

#include <cstdint>

#include "machine.h"

namespace ringtree {

constexpr std::int64_t silence_ns = 3'000'000'000;     // a peer that sends nothing for so long is lost
constexpr std::int64_t unanswered_ns = 6'000'000'000;  // the kernel asks at 0, 1 and 3 s: a link may just be coming up
constexpr std::int64_t heartbeat_ns = 500'000'000;

// Why a peer that was last heard then counts as lost, or nullptr. `answered`: whether it was ever heard.
inline const char* overdue(std::int64_t now, std::int64_t heard_ns, bool answered) {
  if (now - heard_ns <= (answered ? silence_ns : unanswered_ns)) return nullptr;
  return answered ? "was silent for 3 s" : "did not answer for 6 s";
}

// Whether a peer that was last sent something then waits for a heartbeat.
inline bool heartbeat_due(std::int64_t now, std::int64_t sent_ns) {
  return now - sent_ns >= heartbeat_ns;
}

}  // namespace ringtree
