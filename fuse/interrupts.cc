#include "fuse/interrupts.h"

#include <cerrno>
#include <charconv>
#include <csignal>
#include <fstream>
#include <string_view>

namespace dafs::fuse {
namespace {

bool HasSigkill(std::string_view line) {
  for (std::string_view label : {"SigPnd:\t", "ShdPnd:\t"}) {
    if (!line.starts_with(label)) continue;
    line.remove_prefix(label.size());
    uint64_t pending = 0;
    std::from_chars(line.data(), line.data() + line.size(), pending, 16);
    return (pending >> (SIGKILL - 1) & 1) != 0;
  }
  return false;
}

}  // namespace

bool IsBeingKilled(uint32_t pid, const std::string& proc) {
  if (pid == 0) return false;
  std::ifstream status(proc + "/" + std::to_string(pid) + "/status");
  if (!status) return true;
  for (std::string line; std::getline(status, line);) {
    if (HasSigkill(line)) return true;
  }
  return false;
}

void Interrupts::Interrupt(uint64_t unique) {
  Call* call = calls_.Find(unique);
  if (call == nullptr) return;
  call->interrupted = true;
  if (std::function<void()> end_wait = call->on_interrupt) {
    end_wait();
    call = calls_.Find(unique);
    if (call == nullptr) return;
  }
  if (IsBeingKilled(call->header().pid, proc_)) {
    call->ReplyErrno(EINTR);
  } else if (timer_ == 0) {
    timer_ = loop_.RunAfter(kLookAgain, [this] { LookAgain(); });
  }
}

void Interrupts::LookAgain() {
  timer_ = 0;
  bool more = false;
  calls_.ForEach([&](Call& call) {
    if (!call.interrupted || call.answered()) return;
    // A wait should have ended by now: the server is slow, or away.
    if (call.on_interrupt || IsBeingKilled(call.header().pid, proc_)) {
      call.ReplyErrno(EINTR);
    } else {
      more = true;
    }
  });
  if (more) timer_ = loop_.RunAfter(kLookAgain, [this] { LookAgain(); });
}

}  // namespace dafs::fuse
