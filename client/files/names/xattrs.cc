#include "client/files/names/xattrs.h"

#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "client/files/opens/opening.h"
#include "client/files/shared/transfer_policy.h"
#include "client/recovery/calls/data_calls.h"
#include "client/recovery/calls/operation.h"
#include "client/session/session.h"
#include "client/session/session_keeper.h"
#include "runtime/status_macros.h"

namespace dafs::client {
namespace {

using wire::DafsStatus;

constexpr std::string_view kWhatSet = "set extended attribute";
constexpr uint32_t kXattrListBytes = 65536;  // of names in one reply: XATTR_LIST_MAX
// Inline pieces of a value, for servers that cannot read this client's memory. OPENATTR, OPEN,
// SETATTR and CLOSE are in the same chain.
constexpr uint32_t kMostPieces = kMaxChain - 4;
constexpr int kMostLost = 2;  // how often one change may lose its open

// READ_INLINE into a string.
class ValueCall : public Call<wire::ReadInlineArgs> {
 public:
  absl::Status Decode(std::span<const std::byte> message, wire::ByteOrder order,
                      DafsStatus answer) override {
    absl::Status status = Call::Decode(message, order, answer);
    if (!status.ok() || answer != DafsStatus::kOk) return status;
    auto data = wire::FindInlineData(message, res);
    if (!data.ok()) return data.status();
    value.assign(reinterpret_cast<const char*>(data->data()), data->size());
    return absl::OkStatus();
  }

  std::string value;
};

// An attribute that LOOKUP found and READ did not is not a lost file.
absl::Status StatusOfRead(const CallBase& read, std::string_view what) {
  if (read.answered && read.status == DafsStatus::kStale) {
    return wire::StatusFromDafs(DafsStatus::kNoEnt, what);
  }
  return StatusOf(read, what);
}

wire::OpenArgs ArgsOf(std::string_view name, XattrMode mode, std::string owner) {
  wire::OpenArgs args;
  args.claim_type = wire::OpenClaimType::kNull;
  args.pathname.emplace_back(name);
  args.owner = std::move(owner);
  args.share_access = wire::kShareWrite;
  if (mode == XattrMode::kReplace) return args;
  args.open_type = wire::OpenType::kCreate;
  args.createmode =
      mode == XattrMode::kCreate ? wire::CreateMode::kGuarded : wire::CreateMode::kUnchecked;
  args.createattrs.set(wire::kFattrObjectSize);  // 0: removes the old value
  return args;
}

// The error of the first call in `chain` that failed, described by `what`.
absl::Status FirstError(std::span<CallBase* const> chain, std::string_view what) {
  for (const CallBase* call : chain) {
    if (!call->ok()) return StatusOf(*call, what);
  }
  return absl::OkStatus();
}

bool IsLostState(const absl::Status& status) {
  switch (wire::DafsFromStatus(status)) {
    case DafsStatus::kBadStateId:
    case DafsStatus::kStaleStateId:
    case DafsStatus::kOldStateId:
    case DafsStatus::kExpired:
      return true;
    default:
      return false;
  }
}

}  // namespace

// ---- Getting ---------------------------------------------------------------------------------

Task<absl::StatusOr<std::string>> XattrOperations::GetXattr(const Identity& user,
                                                            const wire::FileHandle& file,
                                                            std::string_view name, bool can_wait) {
  constexpr std::string_view kWhat = "get extended attribute";
  Call<wire::OpenattrArgs> attributes;
  Call<wire::LookupArgs> lookup;
  ValueCall read;
  attributes.args.filehandle = file;
  lookup.args.path.emplace_back(name);
  read.args.byte_count = kXattrMost;  // the server sends what fits into a response
  lookup.chf_fh = read.chf_fh = true;
  attributes.can_wait = lookup.can_wait = read.can_wait = can_wait;
  CallBase* const chain[] = {&attributes, &lookup, &read};
  Task<absl::Status> task = Run(&user, chain);
  CO_RETURN_IF_ERROR(co_await task);
  if (!attributes.ok()) co_return StatusOf(attributes, kWhat);
  if (!lookup.ok()) co_return StatusOf(lookup, kWhat);
  if (!read.ok()) co_return StatusOfRead(read, kWhat);
  if (read.res.eof) co_return std::move(read.value);
  // More than a response holds: read all of it again, in one piece.
  Task<absl::StatusOr<std::string>> direct = GetXattrDirect(user, lookup.res.filehandle);
  absl::StatusOr<std::string> value = co_await direct;
  co_return value;
}

Task<absl::StatusOr<std::string>> XattrOperations::GetXattrDirect(
    const Identity& user, const wire::FileHandle& attribute) {
  constexpr std::string_view kWhat = "get extended attribute";
  if (kXattrMost > buffers_.large_bytes()) {
    co_return absl::ResourceExhaustedError("get extended attribute: larger than a buffer");
  }
  absl::StatusOr<BufferLease> lease = co_await buffers_.Acquire(BufferUse::kReadTarget, kXattrMost);
  if (!lease.ok()) co_return lease.status();
  LeasePart part{&buffers_, &*lease, 0, kXattrMost};
  ReadDirectCall read(part);
  read.args.filehandle = attribute;
  read.args.byte_count = kXattrMost;
  CallBase* const chain[] = {&read};
  Task<absl::Status> task = Run(&user, chain);
  CO_RETURN_IF_ERROR(co_await task);
  if (!read.ok()) co_return StatusOfRead(read, kWhat);
  const std::span<const std::byte> value = part.bytes().first(read.res.bytes_read);
  if (!read.res.eof) {
    co_return absl::UnknownError(
        absl::StrCat("get extended attribute: larger than ", kXattrMost, " bytes"));
  }
  if (client_.options().checksums &&
      wire::ComputeChecksum(value, client_.options().byte_order) != read.res.direct_checksum) {
    co_return absl::DataLossError("get extended attribute: data with a wrong checksum");
  }
  co_return std::string(reinterpret_cast<const char*>(value.data()), value.size());
}

Task<absl::StatusOr<std::vector<std::string>>> XattrOperations::ListXattrs(
    const Identity& user, const wire::FileHandle& file) {
  constexpr std::string_view kWhat = "list extended attributes";
  std::vector<std::string> names;
  absl::StatusOr<BufferLease> lease =
      co_await buffers_.Acquire(BufferUse::kReadTarget, kXattrListBytes);
  if (!lease.ok()) co_return lease.status();
  uint64_t cookie = 0;
  wire::Verifier cookieverf;
  for (;;) {
    Call<wire::OpenattrArgs> attributes;
    LeasePart part{&buffers_, &*lease, 0, lease->payload_bytes()};
    ReaddirInlineCall list(part);
    attributes.args.filehandle = file;
    list.args.cookie = cookie;
    list.args.cookieverf = cookieverf;
    list.args.maxcount = kXattrListBytes;
    list.chf_fh = true;
    CallBase* const chain[] = {&attributes, &list};
    Task<absl::Status> task = RunAll(&user, chain, kWhat);
    CO_RETURN_IF_ERROR(co_await task);
    wire::DirentView entry;
    while (list.entries.Next(entry)) {
      names.emplace_back(entry.name);
      cookie = entry.cookie;
    }
    CO_RETURN_IF_ERROR(list.entries.status());
    if (list.res.eof) co_return names;
    if (names.size() > kXattrListBytes) {
      co_return absl::ResourceExhaustedError("list extended attributes: the list has no end");
    }
    cookieverf = list.res.cookieverf;
  }
}

// ---- Setting ---------------------------------------------------------------------------------

Task<absl::Status> XattrOperations::SetXattr(const Identity& user, const wire::FileHandle& file,
                                             std::string_view name, std::string_view value,
                                             XattrMode mode) {
  if (value.size() > kXattrMost) co_return wire::StatusFromDafs(DafsStatus::kFbig, kWhatSet);
  const auto size = static_cast<uint32_t>(value.size());
  const uint32_t room = transfers_.InlineWriteRoom();
  if (size <= room || transfers_.NeedsInlineWrites()) {
    if (size > kMostPieces * room) co_return wire::StatusFromDafs(DafsStatus::kFbig, kWhatSet);
    std::array<std::optional<WriteBytesCall>, kMostPieces> pieces;
    absl::InlinedVector<CallBase*, kMostPieces> writes;
    for (uint32_t done = 0; done < size; done += room) {
      WriteBytesCall& piece =
          pieces[writes.size()].emplace(std::as_bytes(std::span(value.substr(done, room))));
      piece.args.offset = done;
      writes.push_back(&piece);
    }
    Task<absl::Status> task = SetXattrBy(user, file, name, mode, writes);
    absl::Status status = co_await task;
    co_return status;
  }
  absl::StatusOr<BufferLease> lease = co_await buffers_.Acquire(BufferUse::kWriteSource, size);
  if (!lease.ok()) co_return lease.status();
  std::memcpy(lease->payload(), value.data(), value.size());
  LeasePart part{&buffers_, &*lease, 0, size};
  WriteDirectCall write(part);
  write.args.byte_count = size;
  CallBase* const writes[] = {&write};
  Task<absl::Status> task = SetXattrBy(user, file, name, mode, writes);
  absl::Status status = co_await task;
  co_return status;
}

// OPEN, `writes` and CLOSE. An open without its CLOSE must not be reclaimed. So its state id gets
// no permanent name (client/state/opens.h), and the whole chain is repeated.
Task<absl::Status> XattrOperations::SetXattrBy(const Identity& user, const wire::FileHandle& file,
                                               std::string_view name, XattrMode mode,
                                               std::span<CallBase* const> writes) {
  for (int attempt = 0;; ++attempt) {
    Call<wire::OpenattrArgs> attributes;
    Call<wire::OpenArgs> open;
    Call<wire::SetattrInlineArgs> empty;  // the old value may be longer
    Call<wire::CloseArgs> close;
    attributes.args.filehandle = file;
    open.args = ArgsOf(name, mode, absl::StrCat("xattr ", absl::Hex(this), " ", ++set_));
    empty.args.obj_attributes.set(wire::kFattrObjectSize);
    open.chf_fh = true;
    empty.chf_fh = empty.chf_state_id = close.chf_fh = close.chf_state_id = true;
    absl::InlinedVector<CallBase*, kMaxChain> chain = {&attributes, &open};
    if (mode == XattrMode::kReplace) chain.push_back(&empty);
    for (CallBase* write : writes) {
      write->Reset();
      write->open.reset();
      write->chf_fh = write->chf_state_id = true;
      chain.push_back(write);
    }
    chain.push_back(&close);
    Task<absl::Status> task = Run(&user, chain);
    absl::Status status = co_await task;
    if (status.ok()) status = FirstError(chain, kWhatSet);
    if (status.ok()) co_return status;
    if (open.ok() && !close.answered) {
      Task<void> abandoning = AbandonXattr(user, open.res, open.xid.client_id, open.args.owner);
      co_await abandoning;
    }
    // The open was lost. Setting the value again is harmless if the mode allows an existing
    // attribute, if CLOSE was not sent, or if the Response Cache would show that CLOSE was
    // executed.
    const bool again = mode != XattrMode::kCreate || !close.sent || close.xid.cached;
    if (!IsLostState(status) || !again || attempt >= kMostLost) co_return status;
  }
}

// Closes an open whose value is incomplete. A change that the server must refuse comes first: it
// makes CLOSE discard all changes.
Task<void> XattrOperations::AbandonXattr(const Identity& user, const wire::OpenRes& open,
                                         wire::ClientId client_id, std::string owner) {
  OpenInfo info;
  info.handle = open.filehandle;
  info.owner = std::move(owner);
  info.share_access = wire::kShareWrite;
  info.user = user;
  const wire::StateId lasting = client_.opens().Add(std::move(info), open.state_id, client_id);
  Call<wire::SetattrInlineArgs> spoil;
  spoil.args.filehandle = open.filehandle;
  spoil.args.state_id = lasting;
  spoil.args.obj_attributes.set(wire::kFattrObjectSize);
  spoil.args.obj_attributes.object_size = UINT64_MAX;
  CallBase* const chain[] = {&spoil};
  Task<absl::Status> task = Run(&user, chain);
  absl::Status ignored = co_await task;
  if (!spoil.answered || spoil.ok()) {
    client_.opens().Remove(lasting);  // leave it open at the server rather than set part of a value
    co_return;
  }
  Task<absl::Status> closing = opens_.Close(lasting);
  ignored = co_await closing;
}

Task<absl::Status> XattrOperations::RemoveXattr(const Identity& user, const wire::FileHandle& file,
                                                std::string_view name) {
  Call<wire::OpenattrArgs> attributes;
  Call<wire::RemoveArgs> remove;
  attributes.args.filehandle = file;
  remove.args.target = name;
  remove.chf_fh = true;
  CallBase* const chain[] = {&attributes, &remove};
  Task<absl::Status> task = RunAll(&user, chain, "remove extended attribute");
  absl::Status status = co_await task;
  co_return status;
}

}  // namespace dafs::client
