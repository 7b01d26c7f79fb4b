// Loops over arrays. Included once per instruction set: everything here is in an
// unnamed namespace and uses no library templates, so that no function compiled for a wide instruction set can replace
// a namesake elsewhere when the files are linked.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "kernels/elements.h"
#include "kernels/kernels.h"

#if defined(__clang__)
#define RINGTREE_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define RINGTREE_INDEPENDENT _Pragma("GCC ivdep")
#endif

namespace {

// A loop with much to compute has few lines of its sources on their way at once: the processor looks ahead by a number
// of instructions. Lines that come from another core's cache then take longer than they must.
inline void fetch_ahead(const void* at) {
  __builtin_prefetch(static_cast<const char*>(at) + 1024);
}

// A target may be a source at the same index; else the turns of a loop are independent.
template <class T, class F>
struct Runs {
  using S = typename T::Stored;
  using V = typename T::Value;

  static void two(S* t, const S* a, const S* b, size_t n) {
    RINGTREE_INDEPENDENT
    for (size_t i = 0; i < n; i++) t[i] = T::store(F::apply(T::load(a[i]), T::load(b[i])));
  }

  static void begin(V* acc, const S* a, const S* b, size_t n) {
    RINGTREE_INDEPENDENT
    for (size_t i = 0; i < n; i++) acc[i] = F::apply(T::load(a[i]), T::load(b[i]));
  }

  static void go_on(V* acc, const S* a, size_t n) {
    RINGTREE_INDEPENDENT
    for (size_t i = 0; i < n; i++) acc[i] = F::apply(acc[i], T::load(a[i]));
  }

  static void end(S* t, const V* acc, const S* a, size_t n) {
    RINGTREE_INDEPENDENT
    for (size_t i = 0; i < n; i++) t[i] = T::store(F::apply(acc[i], T::load(a[i])));
  }
};

// `R` may be another way to run over arrays than an element at a time.
template <class T, class F, class R = Runs<T, F>>
struct Loops {
  using S = typename T::Stored;
  using V = typename T::Value;
  static constexpr size_t block = 4096 / sizeof(V);  // the running value of many sources stays in L1

  static void many(S* target, const void* const* sources, int nsources, size_t count) {
    V acc[block];
    for (size_t at = 0; at < count; at += block) {
      size_t n = count - at < block ? count - at : block;
      auto source = [&](int k) { return static_cast<const S*>(sources[k]) + at; };
      R::begin(acc, source(0), source(1), n);
      for (int k = 2; k < nsources - 1; k++) R::go_on(acc, source(k), n);
      R::end(target + at, acc, source(nsources - 1), n);
    }
  }

  static void reduce(void* target, const void* const* sources, int nsources, size_t count) {
    auto t = static_cast<S*>(target);
    if (nsources == 1) {
      if (target != sources[0]) memcpy(target, sources[0], count * sizeof(S));
    } else if (nsources > 2) {
      many(t, sources, nsources, count);
    } else {
      R::two(t, static_cast<const S*>(sources[0]), static_cast<const S*>(sources[1]), count);
    }
  }
};

// The same for what is not worth four loops: in blocks, one source after the other.
template <class T, class F>
void reduce_in_steps(void* target, const void* const* sources, int nsources, size_t count) {
  using S = typename T::Stored;
  using V = typename T::Value;
  constexpr size_t block = 4096 / sizeof(V);
  V acc[block];
  for (size_t at = 0; at < count; at += block) {
    size_t n = count - at < block ? count - at : block;
    auto first = static_cast<const S*>(sources[0]) + at;
    for (size_t i = 0; i < n; i++) acc[i] = T::load(first[i]);
    for (int k = 1; k < nsources; k++) {
      auto next = static_cast<const S*>(sources[k]) + at;
      for (size_t i = 0; i < n; i++) acc[i] = F::apply(acc[i], T::load(next[i]));
    }
    auto t = static_cast<S*>(target) + at;
    for (size_t i = 0; i < n; i++) t[i] = T::store(acc[i]);
  }
}

// An element that is `parts` of what `f` reduces.
template <ringtree::Reduce f, int parts>
void reduce_parts(void* target, const void* const* sources, int nsources, size_t count) {
  f(target, sources, nsources, count * parts);
}
template <ringtree::Finish f, int parts>
void finish_parts(void* data, size_t count, int ranks) {
  f(data, count * parts, ranks);
}

template <class T>
void divide(void* data, size_t count, int ranks) {
  auto x = static_cast<typename T::Stored*>(data);
  for (size_t i = 0; i < count; i++) x[i] = T::store(static_cast<typename T::Value>(T::load(x[i]) / ranks));
}

}  // namespace
