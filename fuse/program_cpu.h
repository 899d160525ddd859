// Where the program runs that made a request.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string_view>

namespace dafs::fuse {

// The CPU that thread `tid` of this machine ran on last, by /proc; some microseconds. Nullopt: it
// has ended, or belongs to another PID namespace.
std::optional<uint32_t> CpuOfThread(uint32_t tid);

// The same, of the text of /proc/TID/stat (proc(5), field 39).
std::optional<uint32_t> CpuInStat(std::string_view stat);

}  // namespace dafs::fuse
