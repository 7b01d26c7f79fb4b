// A word of this process alone: a child that is forked from it finds 0 in its place, and makes its own.
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <system_error>

#include "memory/mapping.h"

namespace ringtree {

// Its page stays mapped as long as the process lives, for peers that read it.
class OwnWord {
 public:
  OwnWord() {
    void* at = mmap(nullptr, Mapping::page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "cannot map a page");
    madvise(at, Mapping::page, MADV_WIPEONFORK);
    word_ = static_cast<std::atomic<std::uint64_t>*>(at);
  }
  OwnWord(const OwnWord&) = delete;

  // The word; where there is none yet, the one that `make` returns, which is not 0. All threads find the same.
  template <class Make>
  std::uint64_t get(const Make& make) {
    auto word = word_->load(std::memory_order_relaxed);
    if (word != 0) return word;
    auto made = make();
    return word_->compare_exchange_strong(word, made, std::memory_order_relaxed) ? made : word;
  }
  std::uintptr_t at() const { return reinterpret_cast<std::uintptr_t>(word_); }

 private:
  std::atomic<std::uint64_t>* word_;
};

}  // namespace ringtree
