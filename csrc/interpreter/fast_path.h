// The fast path: calls that are like earlier ones, and the plans that serve them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace ringtree {

// The type of a call's elements: a buffer's format of up to 3 characters, or a type's code. 0: calls that are never
// remembered.
using Form = std::uint32_t;

inline Form form_of(const char* format) {
  Form form = 0;
  for (int i = 0; format[i]; i++) {
    if (i == 3) return 0;
    form = form << 8 | static_cast<unsigned char>(format[i]);
  }
  return form;
}

inline Form form_of(int dtype) {
  return 1u << 24 | static_cast<Form>(dtype);
}

// The properties in which calls are alike. Counts are of elements.
struct CallSignature {
  int collective;
  Form form;
  std::string_view op;
  int root;
  std::int64_t in_count, out_count;

  std::uint64_t hash() const {
    auto mixed = static_cast<std::uint64_t>(in_count) * 0x9e3779b97f4a7c15 + static_cast<std::uint64_t>(out_count);
    return mixed * 0xbf58476d1ce4e5b9 + static_cast<std::uint64_t>((collective << 16) ^ (root << 8)) + form;
  }
  bool operator==(const CallSignature&) const = default;
};

// The memory of a call.
struct Bytes {
  std::byte* data = nullptr;
  std::int64_t nbytes = 0;
};

// `Plan`: what serves a call.
template <class Plan>
class FastPath {
 public:
  // `offset`: by how many elements x begins after out where the two may overlap; nothing where they may not.
  void remember(const CallSignature& signature, std::shared_ptr<Plan> plan, std::optional<std::int64_t> offset) {
    auto op = std::make_unique<const std::string>(signature.op);
    auto hash = signature.hash();
    auto& alike = known_[hash];
    std::erase_if(alike, [&](auto& k) { return k.signature == signature; });
    hashes_[plan.get()].insert(hash);
    alike.push_back({signature, std::move(op), std::move(plan), offset});
    alike.back().signature.op = *alike.back().op;
  }

  // nullptr when no plan is remembered for such a call and these addresses.
  std::shared_ptr<Plan> find(const CallSignature& signature, Bytes x, Bytes out, std::int64_t itemsize) const {
    auto found = known_.find(signature.hash());
    if (found == known_.end()) return nullptr;
    for (auto& k : found->second) {
      if (k.signature != signature) continue;
      if (x.data >= out.data + out.nbytes || out.data >= x.data + x.nbytes) return k.plan;
      return k.offset && x.data - out.data == *k.offset * itemsize ? k.plan : nullptr;
    }
    return nullptr;
  }

  void forget(const std::shared_ptr<Plan>& plan) {
    auto mine = hashes_.find(plan.get());
    if (mine == hashes_.end()) return;
    for (auto hash : mine->second) {
      auto alike = known_.find(hash);
      if (alike == known_.end()) continue;
      std::erase_if(alike->second, [&](auto& k) { return k.plan == plan; });
      if (alike->second.empty()) known_.erase(alike);
    }
    hashes_.erase(mine);
  }

 private:
  struct Known {
    CallSignature signature;                // its `op` is
    std::unique_ptr<const std::string> op;  // this text
    std::shared_ptr<Plan> plan;
    std::optional<std::int64_t> offset;
  };

  std::unordered_map<std::uint64_t, std::vector<Known>> known_;                // by the signature's hash
  std::unordered_map<const Plan*, std::unordered_set<std::uint64_t>> hashes_;  // of all ever remembered of a plan
};

}  // namespace ringtree
