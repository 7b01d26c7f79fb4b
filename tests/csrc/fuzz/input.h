// What the fuzzers share: a fuzzer's bytes as numbers, memory whose edges the address sanitizer watches, seeds.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "memory/segment.h"
#include "waits/wait.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(at, nbytes) ((void)(at), (void)(nbytes))
#define ASAN_UNPOISON_MEMORY_REGION(at, nbytes) ((void)(at), (void)(nbytes))
#endif

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t nbytes);

namespace fuzz {

// Bytes as numbers; zeros behind their end.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t nbytes) : rest_(data, nbytes) {}

  bool empty() const { return rest_.empty(); }
  template <class T>
  T take() {
    T value{};
    fill(&value, sizeof value);
    return value;
  }
  int byte() { return take<std::uint8_t>(); }
  void fill(void* to, std::size_t nbytes) {
    auto n = std::min(nbytes, rest_.size());
    if (n) std::memcpy(to, rest_.data(), n);
    rest_ = rest_.subspan(n);
  }
  std::span<const std::uint8_t> bytes(std::size_t most) {
    auto taken = rest_.first(std::min(most, rest_.size()));
    rest_ = rest_.subspan(taken.size());
    return taken;
  }

 private:
  std::span<const std::uint8_t> rest_;
};

// The same the other way round.
class Seed {
 public:
  template <class T>
  Seed& put(T value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  template <class... T>
  Seed& small(T... value) {
    return (put(static_cast<std::uint8_t>(value)), ...);
  }
  std::string bytes;
};

// Inputs to begin with, in the target's own file.
std::vector<std::string> seeds();

// A group's memory, all zero at first. Pages that were used are given back at the end.
class Memory {
 public:
  explicit Memory(std::size_t nbytes)
      : nbytes_(nbytes),
        at_(mmap(nullptr, nbytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
    if (at_ == MAP_FAILED) std::abort();
  }
  ~Memory() {
    ASAN_UNPOISON_MEMORY_REGION(at_, nbytes_);
    munmap(at_, nbytes_);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  void* at() const { return at_; }

 private:
  std::size_t nbytes_;
  void* at_;
};

// Ends a wait for what will never come at its first look around.
struct Impatient : ringtree::Hooks {
  void interrupted() override { throw ringtree::Interrupted{}; }
};

// Bytes of every value, so that an element of any type is now and then the largest, negative, or none of its type's.
inline void fill(std::byte* data, std::size_t nbytes) {
  for (std::size_t k = 0; k < nbytes; k++) data[k] = static_cast<std::byte>(k * 151 + k / 5);
}

// Every byte is read: an address sanitizer's chance to object.
inline void touch(const std::byte* data, std::size_t nbytes) {
  volatile unsigned sum = 0;
  for (std::size_t k = 0; k < nbytes; k++) sum = sum + std::to_integer<unsigned>(data[k]);
}

}  // namespace fuzz
