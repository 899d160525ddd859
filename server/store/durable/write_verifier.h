// The write verifier: one number for as long as what was written and not committed cannot have been
// lost. Spec: 6.5.8, 6.5.38 (verifier).
//
// The page cache outlives this process, so a restart of the server alone loses nothing, and makes
// no client write again what another may have replaced since. Another verifier comes with another
// start of the machine, another mount of the file system, and a failed fsync; a file
// `write-verifier` in the state directory says so to the next instance. Without it, or on a kernel
// that cannot tell two mounts apart (before Linux 6.8), each instance has another one.
// Thread-safe. Nothing here blocks, once it is made.
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
  // kFailedPrecondition, kResourceExhausted: it cannot be opened or made now. What is not such a
  // file is made anew, which is logged.
  static absl::StatusOr<std::unique_ptr<WriteVerifier>> Open(const std::string& state_dir,
                                                             uint32_t instance);

  // That of the files of `fs`.
  wire::Verifier Of(const FileSystem& fs) const;
  // Another number after every start of the machine and every loss, of all file systems.
  uint64_t era() const;
  // Uncommitted data may have been lost: every client has to write again (6.5.8).
  void Change();

 private:
  struct Record {
    uint64_t magic;
    uint64_t boot;
    uint64_t number;               // drawn once for each start of the machine
    std::atomic<uint64_t> losses;  // a count; publishes nothing
  };

  WriteVerifier(MappedFile file, uint32_t instance) : file_(std::move(file)), instance_(instance) {}
  Record& record() const { return *reinterpret_cast<Record*>(file_.bytes().data()); }

  const MappedFile file_;
  const uint32_t instance_;
};

}  // namespace dafs::server
