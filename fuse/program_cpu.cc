#include "fuse/program_cpu.h"

#include <fcntl.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>

#include "fuse/unique_fd.h"

namespace dafs::fuse {
namespace {

constexpr int kProcessorField = 39;
constexpr int kFieldAfterName = 3;

}  // namespace

std::optional<uint32_t> CpuInStat(std::string_view stat) {
  // The name is in parentheses and may hold anything, these too.
  const size_t name_end = stat.rfind(") ");
  if (name_end == std::string_view::npos) return std::nullopt;
  stat.remove_prefix(name_end + 2);
  for (int field = kFieldAfterName; field < kProcessorField; ++field) {
    const size_t space = stat.find(' ');
    if (space == std::string_view::npos) return std::nullopt;
    stat.remove_prefix(space + 1);
  }
  uint32_t cpu = 0;
  if (std::from_chars(stat.data(), stat.data() + stat.size(), cpu).ec != std::errc()) {
    return std::nullopt;
  }
  return cpu;
}

std::optional<uint32_t> CpuOfThread(uint32_t tid) {
  char path[32];
  std::snprintf(path, sizeof(path), "/proc/%u/stat", tid);
  UniqueFd fd(open(path, O_RDONLY | O_CLOEXEC));
  char text[1024];
  const ssize_t size = fd.valid() ? read(fd.get(), text, sizeof(text)) : -1;
  if (size <= 0) return std::nullopt;
  return CpuInStat(std::string_view(text, static_cast<size_t>(size)));
}

}  // namespace dafs::fuse
