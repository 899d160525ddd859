// Memory of the application in the hands of a request: whether the server may still touch it, and
// whether the application wants it back. Spec: 4.2.2 (direct transfers), FAST03 4.
// Belongs to the thread of its loop.
#pragma once

#include <cstdint>
#include <utility>

namespace dafs::client {

// One use of memory, of all requests that are made for it.
class MemoryUse {
 public:
  virtual ~MemoryUse() = default;

  // The application has it back, or gets it as soon as nothing holds it: it is neither named to the
  // server again, nor read or written here.
  bool given_up() const { return given_up_; }
  bool held() const { return holds_ > 0; }

 protected:
  MemoryUse() = default;
  void Begin() { given_up_ = false; }
  void GiveUp() { given_up_ = true; }
  // Nothing holds it any more. Runs within the session: it must not call back into it.
  virtual void LetGo() = 0;

 private:
  friend class MemoryHold;
  uint32_t holds_ = 0;
  bool given_up_ = false;
};

// Keeps memory from being given back. Held by the session's slot from the post of a request that
// names it to the response, or to the end of the endpoint.
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
