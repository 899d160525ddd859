#include "client/library/batch_io.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "client/files/files.h"
#include "client/library/call_name.h"
#include "client/recovery/calls/data_parts.h"
#include "runtime/check.h"
#include "runtime/loop/run.h"
#include "runtime/status_macros.h"

namespace dafs::client {
namespace {

// The memory use of a UserPart. The memory of a batch is never taken back early.
class Unheld final : public MemoryUse {
  void LetGo() override {}
};

}  // namespace

// An I/O from Submit until it is collected.
struct BatchIo::Io final : internal::GroupEntry, BatchData {
  Io(BatchIo& its_owner, uint64_t its_number) : owner(its_owner), number(its_number) {}

  uint64_t size() const override { return part.size; }
  size_t buffers() const override { return part.buffers(); }
  absl::Status Expose(wire::DirectOpBuffers& to) const override { return part.Expose(to); }
  wire::Checksum Checksum(uint32_t count, wire::ByteOrder order) const override {
    return part.Checksum(count, order);
  }
  void Collect(IoCompletion& out) override {
    out = std::move(end);
    owner.ios_.erase(number);  // destroys this
  }

  BatchIo& owner;
  const uint64_t number;
  CompletionGroup* group = nullptr;
  IoFile* file = nullptr;
  std::vector<MemorySegment> segments;
  Unheld use;
  UserPart part;
  bool ended = false;
  IoCompletion end;
};

BatchIo::BatchIo(Files& files, const Identity& user)
    : files_(files), batches_(files), user_(user) {}

BatchIo::~BatchIo() {
  for (auto& [number, io] : ios_) {
    DAFS_CHECK(io->ended, "a session goes before its batches");
    io->group->Remove(*io);
  }
}

absl::StatusOr<std::unique_ptr<BatchIo::Io>> BatchIo::Make(const BatchIoRequest& request,
                                                           CompletionGroup& group) {
  UserMemory& memory = files_.buffers().user_memory();
  auto io = std::make_unique<Io>(*this, ++last_ | IoId::kOfBatch);
  uint64_t bytes = 0;
  for (const MemorySegment& segment : request.memory) {
    if (segment.handle.is_null()) {
      return absl::InvalidArgumentError("a batch needs registered memory");
    }
    RETURN_IF_ERROR(memory.Check(segment, request.write));
    bytes += segment.size;
  }
  if (bytes > UINT32_MAX) return absl::InvalidArgumentError("one I/O transfers less than 4 GiB");
  io->group = &group;
  io->file = request.file;
  io->segments.assign(request.memory.begin(), request.memory.end());
  io->part = {&memory,      &io->use, io->segments.data(), 0, static_cast<uint32_t>(bytes),
              request.write};
  io->end.cookie = request.cookie;
  return io;
}

absl::StatusOr<std::vector<IoId>> BatchIo::Submit(std::span<const BatchIoRequest> requests,
                                                  CompletionGroup& group,
                                                  const BatchOptions& options) {
  std::vector<std::unique_ptr<Io>> ios;
  std::vector<BatchItem> items;
  for (const BatchIoRequest& request : requests) {
    ASSIGN_OR_RETURN(std::unique_ptr<Io> io, Make(request, group));
    BatchItem& item = items.emplace_back();
    item.rw_flag = request.write ? wire::RwFlag::kWrite : wire::RwFlag::kRead;
    item.file = request.file->handle;
    item.state_id = request.file->state_id;
    for (const FileRange& range : request.ranges) {
      item.chunks.push_back({range.offset, range.size, request.cache_hint});
    }
    item.data = io.get();
    item.cookie = io->number;
    ios.push_back(std::move(io));
  }
  ASSIGN_OR_RETURN(uint64_t first, batches_.Submit(user_, std::move(items), options, *this));
  // No result is reported before this returns.
  UserMemory& memory = files_.buffers().user_memory();
  std::vector<IoId> ids;
  for (std::unique_ptr<Io>& io : ios) {
    io->end.id = IoId{first + ids.size()};
    ids.push_back(io->end.id);
    for (const MemorySegment& segment : io->segments) {
      memory.BeginUse(segment.handle);
    }
    ++io->file->outstanding;
    ++outstanding_;
    group.Issued();
    const uint64_t number = io->number;
    ios_.emplace(number, std::move(io));
  }
  return ids;
}

void BatchIo::OnBatchDone(uint64_t cookie, const BatchResult& result) {
  const auto found = ios_.find(cookie);
  DAFS_CHECK(found != ios_.end() && !found->second->ended, "a batch reports an unknown I/O");
  Io& io = *found->second;
  io.ended = true;
  io.end.count = result.status.ok() ? result.bytes_transferred : 0;
  io.end.status = NameCall(files_, "batch I/O of", io.file->name, result.status);
  UserMemory& memory = files_.buffers().user_memory();
  for (const MemorySegment& segment : io.segments) memory.EndUse(segment.handle);
  --io.file->outstanding;
  --outstanding_;
  io.group->Ended(io);
}

absl::StatusOr<std::vector<IoCompletion>> BatchIo::Run(std::span<const BatchIoRequest> requests) {
  CompletionGroup group(files_.loop());
  ASSIGN_OR_RETURN(std::vector<IoId> ids, Submit(requests, group));
  std::vector<IoCompletion> ends(ids.size());
  while (group.outstanding() > 0) {
    files_.loop().RunOnce(absl::InfiniteDuration());
  }
  for (IoCompletion end; group.Wait({&end, 1}) > 0;) {
    const size_t index = end.id.value - ids[0].value;
    ends[index] = std::exchange(end, {});
  }
  return ends;
}

absl::Status BatchIo::HurryUp(IoId id) {
  return RunUntilDone(files_.loop(), batches_.HurryUp(id.value));
}

absl::Status BatchIo::Cancel(IoId id) {
  if (batches_.Cancel(id.value)) return absl::OkStatus();
  for (const auto& [number, io] : ios_) {
    if (io->end.id == id && !io->ended) {
      return absl::FailedPreconditionError(
          absl::StrCat("cancel an I/O of ", io->file->name, ": the server has it"));
    }
  }
  return absl::NotFoundError("cancel: no such I/O is outstanding");
}

}  // namespace dafs::client
