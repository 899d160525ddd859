#include "fuse/files/live_files.h"

#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "fuse/cache/record/live_kinds.h"
#include "fuse/cache/record/record_bytes.h"

namespace dafs::fuse {
namespace {

// The count of a file or an owner: whether it has ended. That of a file has the number of its
// writes behind that have failed, too.
constexpr uint64_t kEnded = 1;
constexpr uint64_t kFailed = 2;

// The body of a piece. Its size is the count.
struct PieceBody {
  uint64_t fh = 0;
  uint64_t offset = 0;
  uint64_t place = 0;  // LiveRecord::PlaceOf
};

template <class T>
LiveRecord::Slot PutItem(LiveRecord& record, LiveKind kind, uint64_t key, const T& item,
                         uint64_t count, LiveRecord::Slot before) {
  RecordWriter writer;
  writer(item);
  const std::string bytes = writer.Take();
  return record.Put(static_cast<uint8_t>(kind), key, std::as_bytes(std::span(bytes)), count,
                    before);
}

template <class T>
std::optional<T> Decode(const LiveRecord::Item& item) {
  T decoded;
  RecordReader reader(item.body);
  reader(decoded);
  if (!reader.ok() || !reader.at_end()) return std::nullopt;
  return decoded;
}

}  // namespace

SavedFile Saved(uint64_t fh, const OpenState& open) {
  SavedFile file;
  file.fh = fh;
  file.nodeid = open.nodeid;
  file.handle = open.handle;
  file.state_id = open.state_id;
  file.flags = open.flags;
  file.change = open.change;
  file.opener = *open.opener;
  file.by_own_right = open.by_own_right;
  file.owner_changed = open.writes != nullptr && open.owner_changes != open.writes->owner_changes();
  file.opened_by = open.opened_by;
  return file;
}

SavedDirectory Saved(uint64_t fh, const DirectoryState& open) {
  SavedDirectory directory;
  directory.fh = fh;
  directory.nodeid = open.nodeid;
  directory.handle = open.handle;
  directory.opener = *open.opener;
  directory.cookieverf = open.cookieverf();
  directory.listed = open.listed();
  directory.opened_by = open.opened_by;
  const std::shared_ptr<const DirectoryChunk> chunk = open.chunk();
  // The server does not know the cookies of this one.
  if (chunk == nullptr || !chunk->known_here) return directory;
  for (const DirectoryChunk::Entry& entry : chunk->entries) {
    directory.known_here.push_back({entry.cookie, entry.name, entry.attributes.filehandle,
                                    static_cast<uint32_t>(entry.attributes.object_type),
                                    entry.attributes.file_id});
  }
  return directory;
}

void LiveFiles::Put(uint64_t fh, OpenState& open) const {
  if (record_ == nullptr) return;
  open.live_slot = PutItem(*record_, LiveKind::kFile, fh, Saved(fh, open), 0, open.live_slot);
}

void LiveFiles::NoteFailure(const OpenState& open) const {
  if (record_ != nullptr) record_->AddToCount(open.live_slot, kFailed);
}

bool LiveFiles::PutPiece(const OpenState& open, uint64_t offset, std::span<const std::byte> data,
                         LiveRecord::Slot* slot) const {
  *slot = 0;
  if (record_ == nullptr) return true;
  const std::optional<uint64_t> place = record_->PlaceOf(data);
  if (!place.has_value() || open.live_slot == 0) return false;
  const PieceBody body = {.fh = record_->KeyOf(open.live_slot), .offset = offset, .place = *place};
  *slot = record_->Put(static_cast<uint8_t>(LiveKind::kPiece), record_->NewKey(),
                       std::as_bytes(std::span(&body, 1)), data.size(), 0);
  return *slot != 0;
}

void LiveFiles::Lengthen(LiveRecord::Slot piece, uint64_t size) const {
  if (record_ != nullptr) record_->SetCount(piece, size);
}

void LiveFiles::End(const OpenState& open) const {
  if (record_ != nullptr) record_->AddToCount(open.live_slot, kEnded);
}

void LiveFiles::Drop(const OpenState& open) const { Drop(open.live_slot); }

// A crash forgets whether a listing has begun: then the first answer is requested again.
void LiveFiles::Put(uint64_t fh, DirectoryState& open) const {
  if (record_ == nullptr) return;
  open.live_slot = PutItem(*record_, LiveKind::kDirectory, fh, Saved(fh, open), 0, open.live_slot);
}

void LiveFiles::Drop(const DirectoryState& open) const { Drop(open.live_slot); }

LiveRecord::Slot LiveFiles::Put(const SavedLockOwner& owner, bool ended,
                                LiveRecord::Slot before) const {
  if (record_ == nullptr) return 0;
  return PutItem(*record_, LiveKind::kLockOwner, owner.number, owner, ended ? kEnded : 0, before);
}

void LiveFiles::End(LiveRecord::Slot owner) const {
  if (record_ != nullptr) record_->SetCount(owner, kEnded);
}

void LiveFiles::Drop(LiveRecord::Slot slot) const {
  if (record_ != nullptr) record_->Drop(slot);
}

LiveFiles::Left LiveFiles::Read(std::span<const LiveRecord::Item> items) {
  Left left;
  absl::flat_hash_map<uint64_t, SavedPiece> files;  // by handle, also those that have ended
  std::vector<std::pair<PieceBody, uint64_t>> pieces;
  for (const LiveRecord::Item& item : items) {
    const bool ended = (item.count & kEnded) != 0;
    switch (static_cast<LiveKind>(item.kind)) {
      case LiveKind::kFile: {
        std::optional<SavedFile> file = Decode<SavedFile>(item);
        if (!file.has_value()) break;
        file->has_lost_data = item.count / kFailed != 0;
        files[file->fh] = {.file = file->handle, .user = file->opener, .open = file->state_id};
        // Its opener may not be the owner of the file any more.
        file->owner_changed = true;
        if (ended) {
          left.ended.push_back(file->state_id);
        } else {
          left.files.push_back(*std::move(file));
        }
        break;
      }
      case LiveKind::kDirectory:
        if (std::optional<SavedDirectory> directory = Decode<SavedDirectory>(item)) {
          left.directories.push_back(*std::move(directory));
        }
        break;
      case LiveKind::kLockOwner: {
        std::optional<SavedLockOwner> owner = Decode<SavedLockOwner>(item);
        if (!owner.has_value()) break;
        if (ended) {
          left.ended.push_back(owner->state_id);
        } else {
          left.owners.push_back(*std::move(owner));
        }
        break;
      }
      case LiveKind::kPiece: {
        PieceBody body;
        if (item.body.size() != sizeof(body)) break;
        std::memcpy(&body, item.body.data(), sizeof(body));
        pieces.emplace_back(body, item.count);
        break;
      }
      default:
        break;
    }
  }
  for (const auto& [body, size] : pieces) {
    const auto file = files.find(body.fh);
    if (file == files.end()) continue;  // only a damaged record has such a piece
    SavedPiece& piece = left.pieces.emplace_back(file->second);
    piece.offset = body.offset;
    piece.size = size;
    piece.place = body.place;
  }
  return left;
}

}  // namespace dafs::fuse
