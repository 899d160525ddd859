// The write verifier: a number that changes whenever uncommitted data may have been lost.
// Spec: 6.5.8, 6.5.38 (verifier).
//
// The page cache outlives this process, so a restart of the server alone loses nothing. The
// verifier then stays, and no client rewrites data that another client may have replaced since. The
// verifier changes after a start of the machine, a new mount of the file system, or a failed fsync.
// The file `write-verifier` in the state directory passes the number to the next instance. Without
// this file, or on a kernel that cannot distinguish two mounts (before Linux 6.8), each instance
// has another verifier. Thread-safe. After Open nothing here blocks.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "server/store/objects/mounts.h"
#include "server/store/system/mapped_file.h"
#include "wire/protocol/types.h"

namespace dafs::server {

class WriteVerifier {
 public:
  // kFailedPrecondition, kResourceExhausted: the file cannot be opened or created now. A file with
  // invalid content is replaced, which is logged.
  static absl::StatusOr<std::unique_ptr<WriteVerifier>> Open(const std::string& state_dir,
                                                             uint32_t instance);

  // The verifier for files of `fs`.
  wire::Verifier Of(const FileSystem& fs) const;
  // A number for all file systems; it changes after every start of the machine and every loss.
  uint64_t era() const;
  // Changes the verifier because uncommitted data may have been lost: clients write it again
  // (6.5.8).
  void Change();

 private:
  struct Record {
    uint64_t magic;
    uint64_t boot;
    uint64_t number;               // random, for each start of the machine
    std::atomic<uint64_t> losses;  // a count; publishes nothing
  };

  WriteVerifier(MappedFile file, uint32_t instance) : file_(std::move(file)), instance_(instance) {}
  Record& record() const { return *reinterpret_cast<Record*>(file_.bytes().data()); }

  const MappedFile file_;
  const uint32_t instance_;
};

}  // namespace dafs::server
