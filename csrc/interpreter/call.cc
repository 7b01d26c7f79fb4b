#include "interpreter/call.h"

#include <algorithm>
#include <iterator>

namespace ringtree {

static_assert(dtypes < 32 && ops < 16);

// Bits: 0-4 collective, 5-9 type + 1, 10-13 operation + 1, 14-31 root + 1 (0: none).
std::uint32_t pack(std::string_view collective, int dtype, int op, int root) {
  auto found = std::find(std::begin(collective_names), std::end(collective_names), collective);
  auto which = found == std::end(collective_names) ? 0 : found - std::begin(collective_names);
  return static_cast<std::uint32_t>(which) | (static_cast<std::uint32_t>(dtype + 1) << 5) |
         (static_cast<std::uint32_t>(op + 1) << 10) | (static_cast<std::uint32_t>(root + 1) << 14);
}

Fingerprint print_of_message(int dtype, std::uint64_t count, int tag) {
  auto name = tag == -2 ? "copy" : tag == -3 ? "exchange_parts" : "message";
  return {tag == -3 ? 0 : count, pack(name, dtype, -1, -1), static_cast<std::uint32_t>(tag)};
}

std::string_view collective_name(const Fingerprint& print) {
  auto which = print.code & 31;
  return which < std::size(collective_names) ? collective_names[which] : "an unknown collective";
}

std::string describe(const Fingerprint& print, const std::vector<std::string>& names) {
  auto dtype = static_cast<int>((print.code >> 5) & 31) - 1;
  auto op = static_cast<int>((print.code >> 10) & 15) - 1;
  auto root = static_cast<int>(print.code >> 14) - 1;
  std::string text(collective_name(print));
  text += "(";
  text += dtype_name(dtype);
  if (op >= 0) text.append(", ").append(op_name(op));
  if (collective_name(print) != "exchange_parts" || print.count) text += ", count " + std::to_string(print.count);
  if (collective_name(print) == "message") text += ", tag " + std::to_string(static_cast<std::int32_t>(print.digest));
  if (root >= 0) text += ", root " + (root < static_cast<int>(names.size()) ? names[root] : std::to_string(root));
  return text + ")";
}

}  // namespace ringtree
