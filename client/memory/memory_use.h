// Tracks memory of the application that a request uses: whether the server may still access it, and
// whether the application has taken it back. Spec: 4.2.2 (direct transfers), FAST03 4.
// Belongs to the thread of its loop.
#pragma once

#include <cstdint>
#include <utility>

namespace dafs::client {

// One use of memory, by all requests that are made for it.
class MemoryUse {
 public:
  virtual ~MemoryUse() = default;

  // The application takes it back, now or as soon as nothing holds it. It must not be named to the
  // server again, nor read or written here.
  bool given_up() const { return given_up_; }
  bool held() const { return holds_ > 0; }

 protected:
  MemoryUse() = default;
  void Begin() { given_up_ = false; }
  void GiveUp() { given_up_ = true; }
  // Called when nothing holds the memory any more. Runs inside the session: it must not call the
  // session.
  virtual void LetGo() = 0;

 private:
  friend class MemoryHold;
  uint32_t holds_ = 0;
  bool given_up_ = false;
};

// Prevents the return of memory to the application. The session's slot holds it from the post of a
// request that names the memory until the response, or until the endpoint ends.
class MemoryHold {
 public:
  MemoryHold() = default;
  explicit MemoryHold(MemoryUse* use) : use_(use) {
    if (use_ != nullptr) ++use_->holds_;
  }
  MemoryHold(MemoryHold&& other) noexcept : use_(std::exchange(other.use_, nullptr)) {}
  MemoryHold& operator=(MemoryHold&& other) noexcept {
    if (this != &other) {
      Release();
      use_ = std::exchange(other.use_, nullptr);
    }
    return *this;
  }
  ~MemoryHold() { Release(); }
  void Release() {
    MemoryUse* use = std::exchange(use_, nullptr);
    if (use != nullptr && --use->holds_ == 0) use->LetGo();
  }

 private:
  MemoryUse* use_ = nullptr;
};

}  // namespace dafs::client
