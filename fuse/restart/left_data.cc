#include "fuse/restart/left_data.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "fuse/restart/handover.h"
#include "runtime/log/log.h"

namespace dafs::fuse {
namespace {

constexpr uint64_t kMostOffset = uint64_t{1} << 63;

// A part of a file that a killed process has left, and its place in that process's live record.
struct LeftData {
  wire::FileHandle file;
  client::Uncommitted::Writer writer;
  uint64_t offset = 0;
  uint64_t size = 0;
  uint64_t place = 0;
  wire::Verifier verifier;  // zero: the server does not have it
};

// The data that was written behind last: it is newer than kept data of the same bytes.
std::vector<LeftData> DataOf(const HandoverRecord& record) {
  absl::flat_hash_map<uint64_t, const HandoverRecord::KeptFile*> files;
  for (const HandoverRecord::KeptFile& file : record.kept_files) files[file.number] = &file;
  std::vector<LeftData> data;
  for (const HandoverRecord::Kept& kept : record.kept) {
    const auto file = files.find(kept.file);
    if (file == files.end()) continue;
    data.push_back({file->second->file,
                    {file->second->user, file->second->open},
                    kept.offset,
                    kept.size,
                    kept.place,
                    kept.verifier});
  }
  for (const SavedPiece& piece : record.pieces) {
    data.push_back(
        {piece.file, {piece.user, piece.open}, piece.offset, piece.size, piece.place, {}});
  }
  return data;
}

// Memory that its owner keeps.
struct Room {
  std::span<std::byte> bytes;
  std::shared_ptr<const void> owner;
};

// In `live`, where the next process finds it after a further kill, or ordinary memory.
Room TakeRoom(size_t bytes, LiveRecord* live) {
  const std::span<std::byte> memory =
      live != nullptr ? live->TakeMemory(bytes) : std::span<std::byte>();
  if (!memory.empty()) {
    // Nothing else uses this memory again.
    return {memory, {memory.data(), [memory](const void*) {
                       madvise(memory.data(), memory.size(), MADV_REMOVE);
                     }}};
  }
  LogWarning(absl::StrCat(bytes,
                          " bytes that a killed mount.dafs has left are in memory that ends "
                          "with this process: a kill before the server has them loses them"));
  std::shared_ptr<std::byte[]> owned = std::make_shared_for_overwrite<std::byte[]>(bytes);
  return {{owned.get(), bytes}, owned};
}

}  // namespace

size_t LiveDataBytes(const Options& options, const client::ClientOptions& client) {
  // The write buffers are half of the pool, and up to two huge pages more because of their
  // alignment.
  const size_t buffers = client.buffers.bytes / 2 + (size_t{4} << 20);
  // Once for this program, and once for what it takes over from a killed one.
  return 2 * (options.nconnect * buffers + client.uncommitted_bytes);
}

absl::Status RestoreData(const HandoverRecord& record, int left, LiveRecord* live,
                         client::Client& client) {
  struct stat info = {};
  if (fstat(left, &info) != 0) return absl::ErrnoToStatus(errno, "read the record of the mount");
  // Data that is written behind may have been recorded as uncommitted already.
  const uint64_t most = 2 * static_cast<uint64_t>(info.st_size);
  const std::vector<LeftData> all = DataOf(record);
  size_t bytes = 0;
  for (const LeftData& one : all) {
    if (one.size == 0 || one.size > std::numeric_limits<uint32_t>::max() ||
        one.size > most - bytes || one.offset > kMostOffset - one.size) {
      return Contradiction("uncommitted data");
    }
    bytes += one.size;
  }
  if (bytes == 0) return absl::OkStatus();
  const Room room = TakeRoom(bytes, live);  // owned by the parts of it that are kept
  std::span<std::byte> rest = room.bytes;
  for (const LeftData& one : all) {
    const std::span<std::byte> data = rest.first(one.size);
    rest = rest.subspan(one.size);
    if (!LiveRecord::ReadData(left, one.place, data)) return Contradiction("uncommitted data");
    client.uncommitted().Restore(one.file, one.writer, one.offset, data, room.owner, one.verifier);
  }
  return absl::OkStatus();
}

}  // namespace dafs::fuse
