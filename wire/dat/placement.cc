#include "wire/dat/placement.h"

#include <utility>

namespace dafs::dat {
namespace {

cpu_set_t Only(uint32_t cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  return set;
}

bool GetCpus(cpu_set_t& set) {
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof(set), &set) == 0;
}

}  // namespace

bool Placement::Note(uint64_t who, bool alone) {
  const bool same = std::exchange(who_, who) == who;
  if (!alone || !same) NotAlone();
  if (++seen_ < kWindow) return false;
  const bool takes_turns = others_ <= kOthers;
  seen_ = others_ = 0;
  return takes_turns;
}

void Placement::NotAlone() {
  // At once, not at the end of the window: what comes now may be better off on another CPU.
  if (++others_ > kOthers) Free();
}

void Placement::Follow(std::optional<uint32_t> cpu) {
  if (cpu == bound_) return;
  if (!cpu.has_value() || *cpu >= CPU_SETSIZE) return Free();
  if (!bound_.has_value() && !GetCpus(allowed_)) return;
  // On one CPU there is nothing to choose.
  if (CPU_COUNT(&allowed_) < 2 || !CPU_ISSET(*cpu, &allowed_)) return Free();
  const cpu_set_t only = Only(*cpu);
  if (sched_setaffinity(0, sizeof(only), &only) != 0) return;
  bound_ = cpu;
  loop_.CpusChanged();
}

void Placement::Free() {
  if (!bound_.has_value()) return;
  loop_.CpusChanged();
  const cpu_set_t only = Only(*std::exchange(bound_, std::nullopt));
  cpu_set_t now;
  // What somebody else has set meanwhile (taskset -p) stays.
  if (!GetCpus(now) || !CPU_EQUAL(&now, &only)) return;
  (void)sched_setaffinity(0, sizeof(allowed_), &allowed_);
}

}  // namespace dafs::dat
