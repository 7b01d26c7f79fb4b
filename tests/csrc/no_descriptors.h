// A process that can open no more files, for tests of what then happens.
#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>

// While it lives.
struct NoDescriptors {
  rlimit before{};
  NoDescriptors() {
    getrlimit(RLIMIT_NOFILE, &before);
    int next = dup(0);
    ::close(next);
    rlimit none{static_cast<rlim_t>(next), before.rlim_max};
    if (setrlimit(RLIMIT_NOFILE, &none) != 0) std::abort();
  }
  ~NoDescriptors() { setrlimit(RLIMIT_NOFILE, &before); }
};
