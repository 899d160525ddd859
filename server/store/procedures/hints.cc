// CACHE_HINT: passes a client's expectations to the kernel. Spec: 4.2.4, 6.1.8, 6.5.6.
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "server/store/parts/store_parts.h"
#include "server/store/procedures/attribute_procedures.h"
#include "server/store/procedures/data_procedures.h"
#include "server/store/procedures/shared/data_access.h"
#include "wire/messages/read_write.h"
#include "wire/protocol/constants.h"

namespace dafs::server {

using wire::DafsStatus;

namespace {

// Per request; a client that wants more sends another.
constexpr int64_t kMostPrefetch = int64_t{64} << 20;
// The kernel reads at most the device's readahead per call, whatever the length.
constexpr int64_t kPrefetchStep = int64_t{128} << 10;

// A weight of a hint, 1 to 7. A zero is not given and counts as 4, "unknown". Spec gap: 6.5.6 gives
// the default for a hint of zero, and does not say what a prefetch alone means.
uint32_t WeightOf(uint32_t bits) { return bits == 0 ? 4 : bits; }
bool IsNegative(uint32_t hint) {
  return WeightOf(hint >> 1 & 7) < 4 && WeightOf(hint >> 4 & 7) < 4;
}

void Prefetch(int fd, int64_t offset, int64_t count) {
  for (int64_t done = 0; done < count; done += kPrefetchStep) {
    posix_fadvise(fd, offset + done, std::min(kPrefetchStep, count - done), POSIX_FADV_WILLNEED);
  }
}

// Applies to the descriptor through which all clients read the file: the last hint wins.
void AdvisePattern(Object& file, wire::AccessPattern pattern) {
  int advice = POSIX_FADV_NORMAL;
  if (pattern == wire::AccessPattern::kRandom) advice = POSIX_FADV_RANDOM;
  if (pattern == wire::AccessPattern::kSequential) advice = POSIX_FADV_SEQUENTIAL;
  const bool says_nothing = advice == POSIX_FADV_NORMAL && !file.HasDataFd(/*write=*/false);
  int error = 0;
  const auto fd = says_nothing ? nullptr : file.DataFd(/*write=*/false, &error);
  if (fd != nullptr) posix_fadvise(fd->get(), 0, 0, advice);
}

}  // namespace

DafsStatus DataProcedures::CacheHint(const Caller& caller, const wire::CacheHintArgs& args,
                                     absl::AnyInvocable<void()>* later) {
  const bool prefetch = (args.cache_hint & wire::kCacheHintPrefetch) != 0;
  wire::FileAttributes none;
  Caller unpromised = caller;  // the response contains no attributes
  unpromised.promises = nullptr;
  STORE_RETURN_IF_NOT_OK(
      AttributeProcedures(store_).Getattr(unpromised, args.filehandle, 0, &none));
  OpenData data;
  DafsStatus status = DafsStatus::kInval;
  if (!IsOfAttributes(args.filehandle)) {
    status = FindData(store_, caller, args.filehandle, wire::StateId(), wire::kShareRead, &data);
  }
  // Only file data can be prefetched. The kernel caches attributes and directories by itself.
  if (status == DafsStatus::kInval && prefetch) return DafsStatus::kPrefetchNotSupported;
  // A hint from a caller that may not read the file now succeeds without effect.
  if (status != DafsStatus::kOk) return DafsStatus::kOk;
  const bool drop = args.access_pattern == wire::AccessPattern::kDontNeed;
  const bool read = !drop && ((prefetch && !IsNegative(args.cache_hint)) ||
                              args.access_pattern == wire::AccessPattern::kWillNeed);
  if (!drop && args.access_pattern != wire::AccessPattern::kWillNeed) {
    AdvisePattern(*data.file, args.access_pattern);
  }
  struct stat st;
  if ((!read && !drop) || data.file->fs().memory || fstat(data.fd->get(), &st) != 0) {
    return DafsStatus::kOk;
  }
  if (args.offset >= static_cast<uint64_t>(st.st_size)) return DafsStatus::kOk;
  const auto offset = static_cast<int64_t>(args.offset);
  int64_t count = st.st_size - offset;
  if (args.count != 0) count = std::min<int64_t>(count, args.count);
  if (read) {
    *later = [fd = data.fd, offset, count] {
      Prefetch(fd->get(), offset, std::min(count, kMostPrefetch));
    };
  } else {
    *later = [fd = data.fd, offset, count] {
      posix_fadvise(fd->get(), offset, count, POSIX_FADV_DONTNEED);
    };
  }
  return DafsStatus::kOk;
}

}  // namespace dafs::server
