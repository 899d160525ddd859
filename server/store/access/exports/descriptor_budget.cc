#include "server/store/access/exports/descriptor_budget.h"

#include <sys/resource.h>

namespace dafs::server {
namespace {

size_t DescriptorLimit(size_t wanted) {
  if (wanted > 0) return wanted;
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 512;
  return static_cast<size_t>(limit.rlim_cur) / 4 * 3;
}

}  // namespace

DescriptorBudget::DescriptorBudget(size_t wanted, DescriptorCache& cache)
    : most_(DescriptorLimit(wanted)), cache_(cache) {}

}  // namespace dafs::server
