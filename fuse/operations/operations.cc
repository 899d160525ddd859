#include "fuse/operations/operations.h"

#include <array>
#include <cerrno>
#include <optional>
#include <utility>

#include "fuse/kernel/protocol.h"
#include "fuse/operations/shared/request_nodes.h"

namespace dafs::fuse {

// Which function serves an opcode.
struct Operations::Table {
  using Function = Task<void> (*)(Operations& operations, Call& call);
  struct Row {
    uint32_t opcode = 0;
    Function function = nullptr;  // null: ENOSYS
    // Whether Serve waits for pending writes to the node first. If not, the function itself does.
    bool waits_for_writes = true;
    // Whether it acts for the opener of a file or directory alone, not for the caller.
    bool by_opener = false;
  };

  // The function `kFunction` of the group `kGroup`.
  template <auto kGroup, auto kFunction>
  static Task<void> To(Operations& operations, Call& call) {
    return ((operations.*kGroup).*kFunction)(call);
  }

  static const Row kRows[];
  static const Row& RowOf(uint32_t opcode);
};

constexpr bool kByOpener = true;

constexpr Operations::Table::Row Operations::Table::kRows[] = {
    {FUSE_LOOKUP, To<&Operations::names_, &NameOperations::Lookup>},
    {FUSE_READLINK, To<&Operations::names_, &NameOperations::Readlink>},
    {FUSE_SYMLINK, To<&Operations::names_, &NameOperations::Symlink>},
    {FUSE_MKNOD, To<&Operations::names_, &NameOperations::Mknod>},
    {FUSE_MKDIR, To<&Operations::names_, &NameOperations::Mkdir>},
    {FUSE_UNLINK, To<&Operations::names_, &NameOperations::Unlink>},
    // The kernel has checked the type; REMOVE serves both.
    {FUSE_RMDIR, To<&Operations::names_, &NameOperations::Unlink>},
    {FUSE_RENAME, To<&Operations::names_, &NameOperations::Rename>},
    {FUSE_RENAME2, To<&Operations::names_, &NameOperations::Rename2>},
    {FUSE_LINK, To<&Operations::names_, &NameOperations::Link>},
    {FUSE_GETATTR, To<&Operations::attributes_, &AttributeOperations::Getattr>},
    {kStatx, To<&Operations::attributes_, &AttributeOperations::Getattr>},
    {FUSE_SETATTR, To<&Operations::attributes_, &AttributeOperations::Setattr>},
    {FUSE_ACCESS, To<&Operations::attributes_, &AttributeOperations::Access>},
    {FUSE_STATFS, To<&Operations::root_, &RootStatus::Statfs>},
    {FUSE_OPEN, To<&Operations::open_, &OpenOperations::Open>},
    {FUSE_CREATE, To<&Operations::open_, &OpenOperations::Create>},
    {FUSE_TMPFILE, To<&Operations::open_, &OpenOperations::Tmpfile>},
    {FUSE_RELEASE, To<&Operations::open_, &OpenOperations::Release>, false, kByOpener},
    {FUSE_READ, To<&Operations::data_, &DataOperations::Read>, true, kByOpener},
    {FUSE_WRITE, To<&Operations::write_, &WriteOperations::Write>, false, kByOpener},
    {FUSE_FLUSH, To<&Operations::data_, &DataOperations::Flush>, false, kByOpener},
    {FUSE_FSYNC, To<&Operations::data_, &DataOperations::Fsync>, true, kByOpener},
    {FUSE_FALLOCATE, To<&Operations::ranges_, &RangeOperations::Fallocate>, true, kByOpener},
    {FUSE_LSEEK, To<&Operations::ranges_, &RangeOperations::Lseek>, true, kByOpener},
    {FUSE_COPY_FILE_RANGE, To<&Operations::ranges_, &RangeOperations::CopyFileRange>, true,
     kByOpener},
    {kCopyFileRange64, To<&Operations::ranges_, &RangeOperations::CopyFileRange>, true, kByOpener},
    {FUSE_GETLK, To<&Operations::locks_, &LockOperations::Getlk>, true, kByOpener},
    {FUSE_SETLK, To<&Operations::locks_, &LockOperations::Setlk>, true, kByOpener},
    {FUSE_SETLKW, To<&Operations::locks_, &LockOperations::Setlk>, true, kByOpener},
    {FUSE_IOCTL, To<&Operations::ioctls_, &IoctlOperations::Ioctl>, true, kByOpener},
    {FUSE_OPENDIR, To<&Operations::directories_, &DirectoryOperations::Opendir>},
    {FUSE_READDIR, To<&Operations::directories_, &DirectoryOperations::Readdir>, true, kByOpener},
    {FUSE_READDIRPLUS, To<&Operations::directories_, &DirectoryOperations::Readdir>, true,
     kByOpener},
    {FUSE_RELEASEDIR, To<&Operations::directories_, &DirectoryOperations::Releasedir>, true,
     kByOpener},
    {FUSE_FSYNCDIR, To<&Operations::directories_, &DirectoryOperations::Fsyncdir>, true, kByOpener},
    {FUSE_GETXATTR, To<&Operations::xattrs_, &XattrOperations::Getxattr>},
    {FUSE_SETXATTR, To<&Operations::xattrs_, &XattrOperations::Setxattr>},
    {FUSE_LISTXATTR, To<&Operations::xattrs_, &XattrOperations::Listxattr>},
    {FUSE_REMOVEXATTR, To<&Operations::xattrs_, &XattrOperations::Removexattr>},
};

const Operations::Table::Row& Operations::Table::RowOf(uint32_t opcode) {
  static constexpr auto kByOpcode = [] {
    std::array<Row, 64> rows;  // all opcodes of the kernel are smaller
    for (const Row& row : kRows) rows[row.opcode] = row;
    return rows;
  }();
  return kByOpcode[opcode < kByOpcode.size() ? opcode : 0];  // no request has opcode 0
}

Task<void> Operations::Serve(std::unique_ptr<Call> call, std::function<void()> done) {
  const uint32_t opcode = call->header().opcode;
  const Table::Row& row = Table::RowOf(opcode);
  slow_.Begin(*call);
  context_.state.caches.inodes.Accepted(call->nodeid(), call->header().pid);
  if (row.waits_for_writes && !context_.pending.none()) {
    // Only the reply to a CREATE shows which file it opened, and perhaps truncated.
    co_await context_.pending.Drained(opcode == FUSE_CREATE ? WriteBehindTable::kAnyNode
                                                            : call->nodeid());
  }
  if (row.function == nullptr) {
    call->ReplyErrno(ENOSYS);
  } else if (const int error = row.by_opener ? 0 : ErrnoOfEntry(context_.state, *call)) {
    call->ReplyErrno(error);
  } else if (!call->answered()) {  // its caller was killed while it waited
    co_await SetOperation(&call->in_flight());
    co_await row.function(*this, *call);
  }
  if ((call->header().unique & kUniqueResent) != 0) [[unlikely]] {
    Task<void> closing = CloseLeft(*call);
    co_await closing;
  }
  slow_.End(*call);
  call.reset();
  done();
}

// Closes what a killed process had opened for this request, if the request has not taken it over.
Task<void> Operations::CloseLeft(const Call& call) {
  LeftOpens::Left left = context_.state.left.opens.Take(call.header().unique & ~kUniqueResent);
  if (left.directory != 0) directories_.Close(left.directory);
  return context_.opens.CloseLeft(std::move(left));
}

void Operations::Forget(uint64_t nodeid, RequestReader in) {
  auto forget = in.Take<fuse_forget_in>();
  if (in.ok()) ForgetNode(nodeid, forget.nlookup);
}

void Operations::ForgetNode(uint64_t nodeid, uint64_t count) {
  // A file that the kernel forgets while it has uncommitted data was probably removed.
  const std::optional<wire::FileHandle> gone = ForgetLookups(context_.state, nodeid, count);
  if (!gone.has_value()) return;
  context_.files.ForEach([&](client::Files& files) {
    files.commits().DropIfRemoved(*gone);
    files.opens().Unused(*gone);  // the server would keep the removed file
  });
}

void Operations::BatchForget(RequestReader in) {
  auto batch = in.Take<fuse_batch_forget_in>();
  for (uint32_t i = 0; i < batch.count && in.ok(); ++i) {
    auto one = in.Take<fuse_forget_one>();
    if (in.ok()) ForgetNode(one.nodeid, one.nlookup);
  }
}

}  // namespace dafs::fuse
