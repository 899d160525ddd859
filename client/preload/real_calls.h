// The functions of libc that libdafs-preload.so replaces with its own. Any thread.
#pragma once

#include <dlfcn.h>

#include <atomic>

namespace dafs::preload {

// Looks up `name` at the first call, which may come before any constructor of this library. If
// libc lacks the function, no program calls it.
template <class Function>
class RealCall {
 public:
  constexpr explicit RealCall(const char* name) : name_(name) {}
  Function* get() {
    Function* found = found_.load(std::memory_order_relaxed);
    if (found == nullptr) {
      found = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name_));
      found_.store(found, std::memory_order_relaxed);  // always the same
    }
    return found;
  }
  template <class... Args>
  auto operator()(Args... args) {
    return get()(args...);
  }

 private:
  const char* const name_;
  std::atomic<Function*> found_{nullptr};
};

}  // namespace dafs::preload
