#include "fuse/kernel/rings/ring_plan.h"

#include <charconv>
#include <fstream>
#include <string>
#include <system_error>

namespace dafs::fuse {

uint32_t PossibleCpus() {
  // "0-3" or "0,2-5": the kernel has a queue for each number up to the last, gaps included.
  std::ifstream file("/sys/devices/system/cpu/possible");
  std::string text;
  if (!std::getline(file, text)) return 0;
  const size_t last = text.find_last_of(",-");
  const char* begin = text.data() + (last == text.npos ? 0 : last + 1);
  uint32_t number = 0;
  auto [end, error] = std::from_chars(begin, text.data() + text.size(), number);
  return error == std::errc() && number < UINT16_MAX ? number + 1 : 0;
}

std::vector<uint16_t> RingPlan::QueuesOf(uint32_t number) const {
  std::vector<uint16_t> mine;
  for (uint32_t queue = 0; queue < queues; ++queue) {
    if (queue % workers == number || number % queues == queue) {
      mine.push_back(static_cast<uint16_t>(queue));
    }
  }
  return mine;
}

}  // namespace dafs::fuse
