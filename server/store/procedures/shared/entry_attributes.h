// The attributes of the entries of one directory, for READDIR. Reads them by name where it can:
// opening each object would cost several times as much.
// Spec: 6.5.29; WIRE R36.
// One thread, as the identity entered. Blocks on the file system.
#pragma once

#include <dirent.h>

#include <cstdint>
#include <optional>

#include "server/store/access/answer_promises.h"
#include "server/store/parts/store_parts.h"
#include "server/store/system/working_directory.h"

namespace dafs::server {

class EntryAttributes {
 public:
  // For the attributes in `bitmap`, which are promised too. All are borrowed and outlive this.
  EntryAttributes(StoreParts& store, Object& directory, uint64_t bitmap, AnswerPromises& promises);

  // Sets the attributes of `entry`. If they cannot be read, `valid` stays 0.
  void Read(const dirent64& entry, wire::FileAttributes* attributes);

 private:
  // The ways to read them, from the cheapest to the one that reads all.
  bool FromEntryAlone(const dirent64& entry, wire::FileAttributes* attributes) const;
  void FromStat(const char* name, wire::FileAttributes* attributes) const;
  void FromHandle(const char* name, wire::FileAttributes* attributes);
  void FromObject(const char* name, wire::FileAttributes* attributes);
  bool LeadsTo(const char* name, const KernelHandle& before) const;

  StoreParts& store_;
  Object& directory_;
  const uint64_t bitmap_;
  AnswerPromises& promises_;
  std::optional<ScopedWorkingDirectory> here_;  // set if ACLs are read
};

}  // namespace dafs::server
