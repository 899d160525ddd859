// The files that have had a recall lately: they are shared, and get no delegation for a while.
// Thread-safe. Nothing blocks: each call is one atomic access. It publishes nothing but itself.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "absl/time/time.h"
#include "server/store/objects/handle.h"

namespace dafs::server {

class RecentRecalls {
 public:
  // How long a recall counts as recent, in whole seconds.
  static constexpr absl::Duration kNotAgainFor = absl::Seconds(30);

  // A recall of a delegation of the file begins.
  void Note(const ObjectKey& key, absl::Time now);
  // Whether the file has had one in the last kNotAgainFor. Never true for a file without one; false
  // too early if another file with the same place has had one since.
  bool Has(const ObjectKey& key, absl::Time now) const;

 private:
  // By hash of the key: seconds since the epoch, beside the upper half of the hash, so that no
  // other file counts as recalled. Where two files share a place, the earlier recall is forgotten,
  // and its file may get a delegation too soon.
  std::array<std::atomic<uint64_t>, 4096> latest_{};
};

}  // namespace dafs::server
