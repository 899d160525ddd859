// The state that a mount.dafs leaves for the program that continues its mount (docs/restart.md):
// its nodes, open files and locks, and its name at the server. A value, and its bytes in a memfd.
//
// The bytes come from another program, perhaps of another version, and are checked like input of an
// attacker: DecodeRecord never reads past their end, and allocates no more memory than they fill.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/state/records/identity.h"
#include "fuse/cache/inode_table.h"
#include "fuse/files/saved_files.h"
#include "runtime/files/unique_fd.h"
#include "wire/protocol/lock_ranges.h"
#include "wire/protocol/types.h"

namespace dafs::fuse {

struct HandoverRecord {
  // Increment it with each change of a field or its meaning: also of OwnerNames::New,
  // InodeTable's shards, and the names that client::Opens gives.
  static constexpr uint32_t kVersion = 6;

  // --- The client ---

  struct Open {
    wire::StateId name;
    wire::FileHandle handle;
    std::string owner;
    uint32_t share_access = 0;
    uint32_t share_deny = 0;
    bool executes = false;
    client::Identity user;
    wire::StateId state_id;
    wire::ClientId client_id;
    uint32_t lost = 0;  // absl::StatusCode; 0: not lost
    std::string lost_why;
    bool closing = false;  // its CLOSE was due or under way
    bool is_local = false;
  };
  struct Lock {
    wire::FileHandle file;
    wire::StateId open;
    uint64_t process = 0;
    std::vector<wire::LockRange> ranges;
    bool is_local = false;
  };
  // Only after a kill: opens with its state id are local.
  struct Delegation {
    wire::FileHandle file;
    wire::StateId state_id;
    wire::ClientId client_id;
    client::Identity user;
    bool was_write = false;
  };
  struct Credential {
    client::Identity user;
    wire::CredHandle handle;
  };
  // Only after a kill, and not part of the encoded record.
  struct Session {
    wire::SessionId session_id;
    uint32_t auth = 0;  // wire::AuthType
  };
  std::vector<Session> sessions;
  std::string client_id_string;
  wire::Verifier verifier;
  std::vector<std::string> addresses;  // of the server, each a sockaddr
  std::vector<wire::FileHandle> root_handles;
  uint64_t max_read = 0;
  uint64_t max_write = 0;
  uint64_t max_append = 0;
  uint64_t lease_seconds = 0;
  bool squashed = false;
  bool squashed_in_part = false;
  int64_t last_activity_ns = 0;  // Loop::Now
  uint64_t last_open = 0;
  std::vector<Open> opens;
  std::vector<Lock> locks;
  std::vector<Delegation> delegations;
  // Only after a kill, and not part of the encoded record: uncommitted data, and data that was
  // written behind.
  struct KeptFile {
    uint64_t number = 0;
    wire::FileHandle file;
    client::Identity user;
    wire::StateId open;
  };
  struct Kept {
    uint64_t file = 0;  // KeptFile::number
    uint64_t offset = 0;
    uint64_t size = 0;
    uint64_t place = 0;  // LiveRecord::PlaceOf
    wire::Verifier verifier;
  };
  std::vector<KeptFile> kept_files;
  std::vector<Kept> kept;
  std::vector<SavedPiece> pieces;
  wire::ClientId credentials_of;
  std::vector<Credential> credentials;  // the most recently used first

  // --- The mount ---

  using File = SavedFile;
  using Directory = SavedDirectory;
  using Owner = SavedLockOwner;
  // A request of the kernel that waits for a lock. Begins again.
  struct Waiting {
    uint32_t worker = 0;
    std::string bytes;
  };
  std::string mount_point;
  std::string place;  // PlaceText of named_place.h
  bool by_mount8 = false;
  bool default_permissions = false;
  std::string requests_by;  // how requests arrive, for dafsctl
  uint64_t init_flags = 0;
  uint64_t next_owner = 1;
  uint64_t next_file = 1;
  uint64_t next_directory = 1;
  InodeTable::Saved inodes;
  std::vector<File> files;
  std::vector<Directory> directories;
  uint64_t last_process = 0;
  std::vector<Owner> owners;
  std::vector<Waiting> waiting;

  // The requests of one worker.
  std::vector<std::vector<std::byte>> WaitingOf(size_t worker) const;

  // --- The restart itself ---

  uint64_t restarts = 0;     // before this one
  int64_t asked_ns = 0;      // Loop::Now when dafsctl asked
  int64_t blocked_ns = 0;    // since when requests wait
  int64_t drained_ns = 0;    // since when none is unanswered
  int64_t committed_ns = 0;  // since when the server has all data
};

std::string EncodeRecord(const HandoverRecord& record);
// kDataLoss: damaged. kUnimplemented: another version. The message says so.
absl::StatusOr<HandoverRecord> DecodeRecord(std::span<const std::byte> bytes);

// A memfd with the record, and the record of a memfd. Errors of ReadRecord: also those of
// DecodeRecord.
absl::StatusOr<UniqueFd> WriteRecord(const HandoverRecord& record);
absl::StatusOr<HandoverRecord> ReadRecord(int memfd);

}  // namespace dafs::fuse
