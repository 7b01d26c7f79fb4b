// A call's fingerprint: what every rank must agree on, and how it reads in a message.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/kernels.h"

namespace ringtree {

// Travels in every descriptor. `code` packs collective, operation, type and root, see pack().
struct Fingerprint {
  std::uint64_t count = 0;
  std::uint32_t code = 0;
  std::uint32_t digest = 0;
  bool operator==(const Fingerprint&) const = default;
};

// Names of collectives, which have no meaning here but in messages; a name not in the table reads "schedule".
inline constexpr std::string_view collective_names[] = {
    "schedule",   "all_reduce", "reduce_scatter", "all_gather", "broadcast",      "reduce",  "gather", "scatter",
    "all_to_all", "barrier",    "scan",           "exscan",     "exchange_parts", "message", "copy"};

std::uint32_t pack(std::string_view collective, int dtype, int op, int root);

// The fingerprint of a message: its digest is the tag. A message with a tag of the engine's users' own is named after
// the tag; parts of an exchange, which are of any sizes, have one fingerprint for all sizes.
Fingerprint print_of_message(int dtype, std::uint64_t count, int tag);

// As in "all_reduce(float32, sum, count 8)", "broadcast(float32, count 5, root 1)",
// "message(float32, count 8, tag 3)".
std::string describe(const Fingerprint& print, const std::vector<std::string>& names);

std::string_view collective_name(const Fingerprint& print);

}  // namespace ringtree
