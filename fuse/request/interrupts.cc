#include "fuse/request/interrupts.h"

#include <cerrno>
#include <charconv>
#include <csignal>
#include <fstream>
#include <string_view>
#include <utility>
#include <vector>

namespace dafs::fuse {
namespace {

struct Signals {
  bool known = false;    // the thread exists
  uint64_t pending = 0;  // for it or its process; bit 0 is signal 1
  uint64_t blocked = 0;
};

uint64_t SetBehind(std::string_view line, std::string_view label) {
  uint64_t set = 0;
  if (!line.starts_with(label)) return set;
  line.remove_prefix(label.size());
  std::from_chars(line.data(), line.data() + line.size(), set, 16);
  return set;
}

Signals SignalsOf(uint32_t pid, const CallerProc& proc) {
  Signals signals;
  std::ifstream status(proc.PathOf(pid, "status"));
  if (!status) return signals;
  signals.known = true;
  for (std::string line; std::getline(status, line);) {
    signals.pending |= SetBehind(line, "SigPnd:\t") | SetBehind(line, "ShdPnd:\t");
    signals.blocked |= SetBehind(line, "SigBlk:\t");
  }
  return signals;
}

}  // namespace

bool IsBeingKilled(uint32_t pid, const CallerProc& proc) {
  if (!proc.Shows(pid)) return false;
  const Signals signals = SignalsOf(pid, proc);
  return !signals.known || (signals.pending >> (SIGKILL - 1) & 1) != 0;
}

bool HasSignal(uint32_t pid, const CallerProc& proc) {
  if (!proc.Shows(pid)) return false;
  const Signals signals = SignalsOf(pid, proc);
  return (signals.pending & ~signals.blocked) != 0;
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
    EndEarly(*call);
  } else {
    Start();
  }
}

void Interrupts::EndEarly(Call& call) {
  killed_(call);
  call.ReplyErrno(EINTR);
}

void Interrupts::Start() {
  if (timer_ == 0) timer_ = loop_.RunAfter(kRecheckAfter, [this] { Recheck(); });
}

void Interrupts::Recheck() {
  timer_ = 0;
  bool more = false;
  std::vector<uint64_t> untold;
  calls_.ForEach([&](Call& call) {
    if (call.answered()) return;
    const uint32_t opcode = call.header().opcode;
    if (!call.interrupted && watching_ && opcode != FUSE_READ && opcode != FUSE_WRITE) {
      more = true;
      if (std::exchange(call.looked_at, true) && HasSignal(call.header().pid, proc_)) {
        untold.push_back(call.header().unique);
      }
    }
    if (!call.interrupted) return;
    // on_interrupt did not end the wait in time: the server is slow or unreachable.
    if (call.on_interrupt || IsBeingKilled(call.header().pid, proc_)) {
      EndEarly(call);
    } else {
      more = true;
    }
  });
  // Not inside ForEach, because Interrupt may end calls.
  for (uint64_t unique : untold) Interrupt(unique);
  if (more) Start();
}

}  // namespace dafs::fuse
