// The open files, open directories and lock owners of a mount, for the program that continues it
// (docs/restart.md), and their fields for its records. Values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/state/records/identity.h"
#include "fuse/cache/record/record_bytes.h"
#include "wire/protocol/types.h"

namespace dafs::fuse {

struct SavedFile {
  uint64_t fh = 0;
  uint64_t nodeid = 0;
  wire::FileHandle handle;
  wire::StateId state_id;
  uint32_t flags = 0;
  std::optional<uint64_t> change;
  client::Identity opener;
  bool by_own_right = false;
  bool owner_changed = false;  // since the open
  uint64_t opened_by = 0;      // OpenState::opened_by
  bool has_lost_data = false;  // that was written behind through it
};

// Data that was written behind: the kernel has its answer, and the live record has the data.
struct SavedPiece {
  wire::FileHandle file;
  client::Identity user;
  wire::StateId open;  // zero: none is known
  uint64_t offset = 0;
  uint64_t size = 0;
  uint64_t place = 0;  // LiveRecord::PlaceOf
};

struct SavedEntry {  // of a listing that the mount made itself
  uint64_t cookie = 0;
  std::string name;
  wire::FileHandle handle;
  uint32_t type = 0;
  uint64_t file_id = 0;
};

struct SavedDirectory {
  uint64_t fh = 0;
  uint64_t nodeid = 0;
  wire::FileHandle handle;
  client::Identity opener;
  wire::Verifier cookieverf;
  bool listed = false;
  std::vector<SavedEntry> known_here;
  uint64_t opened_by = 0;  // DirectoryState::opened_by
};

struct SavedLockOwner {  // of record locks
  uint64_t nodeid = 0;
  uint64_t kernel_owner = 0;
  uint64_t number = 0;
  uint64_t process = 0;
  std::string name;
  wire::StateId state_id;
  uint32_t pid = 0;
  std::vector<uint64_t> handles;
};

void Fields(auto& a, Is<SavedFile> auto& m) {
  a(m.fh, m.nodeid, m.handle, m.state_id, m.flags, m.change, m.opener, m.by_own_right,
    m.owner_changed, m.opened_by, m.has_lost_data);
}
void Fields(auto& a, Is<SavedEntry> auto& m) { a(m.cookie, m.name, m.handle, m.type, m.file_id); }
void Fields(auto& a, Is<SavedDirectory> auto& m) {
  a(m.fh, m.nodeid, m.handle, m.opener, m.cookieverf, m.listed, m.known_here, m.opened_by);
}
void Fields(auto& a, Is<SavedLockOwner> auto& m) {
  a(m.nodeid, m.kernel_owner, m.number, m.process, m.name, m.state_id, m.pid, m.handles);
}

}  // namespace dafs::fuse
