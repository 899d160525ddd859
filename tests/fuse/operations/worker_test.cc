// A worker between a fake kernel and a real server in this process: each request that a kernel
// sends, and requests that no kernel sends.
#include <sched.h>
#include <sys/wait.h>

#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "tests/fuse/holding_fixture.h"

namespace dafs::fuse {
namespace {

TEST_F(WorkerTest, LookupFindsFilesAndForgetDropsThem) {
  EXPECT_EQ(kernel_.Call(FUSE_LOOKUP, kRootNode, Name("none")).error, ENOENT);
  EXPECT_EQ(kernel_.Call(FUSE_LOOKUP, kRootNode, Name(std::string(256, 'n'))).error, ENAMETOOLONG);
  std::ofstream(Local("file")) << "12345";
  fuse_entry_out first = Lookup(kRootNode, "file");
  fuse_entry_out second = Lookup(kRootNode, "file");
  EXPECT_EQ(first.nodeid, second.nodeid);
  EXPECT_EQ(first.attr.size, 5u);
  struct stat local;
  ASSERT_EQ(stat(Local("file").c_str(), &local), 0);
  EXPECT_EQ(first.attr.ino, local.st_ino);
  EXPECT_EQ(first.attr.mtimensec, static_cast<uint32_t>(local.st_mtim.tv_nsec));
  EXPECT_EQ(first.attr_valid, 3u);
  EXPECT_EQ(first.entry_valid, 3u);
  kernel_.Send(FUSE_FORGET, first.nodeid, Raw(fuse_forget_in{.nlookup = 1}));
  EXPECT_EQ(kernel_.Call(FUSE_GETATTR, first.nodeid, Raw(fuse_getattr_in{})).error, 0);
  fuse_batch_forget_in batch = {.count = 1, .dummy = 0};
  kernel_.Send(FUSE_BATCH_FORGET, 0, Raw(batch) + Raw(fuse_forget_one{first.nodeid, 1}));
  EXPECT_EQ(kernel_.Call(FUSE_GETATTR, first.nodeid, Raw(fuse_getattr_in{})).error, ESTALE);
  EXPECT_EQ(state_->caches.inodes.size(), 1u);
}

TEST_F(WorkerTest, AFileIsCreatedWrittenReadFlushedAndReleased) {
  Created file = Create("data");
  std::string data(300000, '\0');
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(i * 7 + i / 251);
  FakeKernel::Answer written = Write(file, 0, data);
  EXPECT_EQ(written.error, 0);
  EXPECT_EQ(written.As<fuse_write_out>().size, data.size());
  EXPECT_TRUE(Read(file, 0, 300000).body == data);
  EXPECT_TRUE(Read(file, 299000, 8192).body == data.substr(299000));
  EXPECT_EQ(Read(file, 400000, 4096).body, "");
  EXPECT_EQ(Write(file, 300000, "end").error, 0);
  fuse_flush_in flush = {};
  flush.fh = file.open.fh;
  EXPECT_EQ(kernel_.Call(FUSE_FLUSH, file.entry.nodeid, Raw(flush)).error, 0);
  EXPECT_TRUE(Content("data") == data + "end");
  fuse_fsync_in fsync = {};
  fsync.fh = file.open.fh;
  EXPECT_EQ(kernel_.Call(FUSE_FSYNC, file.entry.nodeid, Raw(fsync)).error, 0);
  EXPECT_EQ(server_->open_count(), 1u);
  Release(file);
  EXPECT_EQ(state_->open_files.size(), 0u);
  // This request follows the CLOSE on the same session, so the server has received both.
  Lookup(kRootNode, "data");
  EXPECT_EQ(Read(file, 0, 10).error, EBADF);
}

// The kernel sends again what a killed process has read. That process may have made the change.
TEST_F(WorkerTest, ResentChangesFailAndOtherResentRequestsAreAnswered) {
  std::ofstream(Local("file")) << "12345";
  const auto resend = [&](uint32_t opcode, const std::string& body) {
    fuse_in_header header = {};
    header.len = static_cast<uint32_t>(sizeof(header) + body.size());
    header.opcode = opcode;
    header.unique = 1000 | kUniqueResent;
    header.nodeid = kRootNode;
    kernel_.SendRaw(Raw(header) + body);
    const FakeKernel::Answer answer = kernel_.Receive();
    EXPECT_EQ(answer.unique, header.unique);
    return answer.error;
  };
  EXPECT_EQ(resend(FUSE_LOOKUP, Name("file")), 0);
  EXPECT_EQ(resend(FUSE_UNLINK, Name("file")), EIO);
  EXPECT_EQ(Content("file"), "12345");
  EXPECT_EQ(kernel_.Call(FUSE_UNLINK, kRootNode, Name("file")).error, 0);
}

// What a killed process had opened for a request that the kernel sends again.
class LeftOpensTest : public HoldingWorkerTest {
 protected:
  // Sends the request with which `file` was opened again, as an OPEN of `node`. Returns its error.
  int OpenAgain(uint64_t request, uint64_t node) {
    const fuse_open_in in = {.flags = O_RDWR, .open_flags = 0};
    return Resend(FUSE_OPEN, request, node, Raw(in));
  }
  int Resend(uint32_t opcode, uint64_t request, uint64_t node, const std::string& body) {
    fuse_in_header header = {};
    header.len = static_cast<uint32_t>(sizeof(header) + body.size());
    header.opcode = opcode;
    header.unique = request | kUniqueResent;
    header.nodeid = node;
    kernel_.SendRaw(Raw(header) + body);
    const FakeKernel::Answer answer = kernel_.Receive();
    EXPECT_EQ(answer.unique, header.unique);
    Lookup(kRootNode, "other");  // the call may end after its answer
    return answer.error;
  }
  // The killed process was between the open and its answer.
  uint64_t LeaveFile(const Created& file) {
    const uint64_t request = state_->open_files.Find(file.open.fh)->opened_by;
    state_->left.opens.AddFile(request, file.open.fh);
    return request;
  }
  // The killed process had the open, and no file yet.
  uint64_t LeaveOpen(const Created& file) {
    const std::shared_ptr<OpenState> open = state_->open_files.Remove(file.open.fh);
    state_->left.opens.AddOpen(open->opened_by, open->state_id, *open->opener);
    return open->opened_by;
  }
  // Returns how many opens the server has, when it has received what was sent until now.
  size_t OpensAtServer() {
    for (int i = 0; i < 200 && server_->open_count() != 0; ++i) Lookup(kRootNode, "other");
    Lookup(kRootNode, "other");  // its reply follows that of the last CLOSE
    return server_->open_count();
  }
};

TEST_F(LeftOpensTest, AnOpenThatFailsWhenItIsSentAgainLeavesNothing) {
  std::ofstream(Local("other")) << "x";
  const uint64_t no_node = 1 << 20;
  const Created first = Create("first");
  EXPECT_EQ(OpenAgain(LeaveFile(first), no_node), ESTALE);
  EXPECT_EQ(OpensAtServer(), 0u);
  EXPECT_EQ(state_->open_files.size(), 0u);
  const Created second = Create("second");
  EXPECT_EQ(OpenAgain(LeaveOpen(second), no_node), ESTALE);
  EXPECT_EQ(OpensAtServer(), 0u);
  EXPECT_EQ(client_->opens().size(), 0u);
}

TEST_F(LeftOpensTest, AnOpenThatIsSentAgainReplacesWhatIsLeft) {
  std::ofstream(Local("other")) << "x";
  for (const bool had_file : {true, false}) {
    const Created file = Create(had_file ? "one" : "two");
    const uint64_t request = had_file ? LeaveFile(file) : LeaveOpen(file);
    EXPECT_EQ(OpenAgain(request, file.entry.nodeid), 0);
    EXPECT_EQ(state_->open_files.size(), 1u);
    EXPECT_EQ(server_->open_count(), 1u);
    uint64_t handle = 0;
    state_->open_files.ForEach([&](uint64_t fh, const OpenState&) { handle = fh; });
    Created again = file;
    again.open.fh = handle;
    Release(again);
    EXPECT_EQ(OpensAtServer(), 0u);
    EXPECT_EQ(client_->opens().size(), 0u);
  }
}

TEST_F(LeftOpensTest, AnOpendirThatIsSentAgainLeavesOneHandleOrNone) {
  std::ofstream(Local("other")) << "x";
  const fuse_open_in in = {};
  ASSERT_EQ(kernel_.Call(FUSE_OPENDIR, kRootNode, Raw(in)).error, 0);
  uint64_t handle = 0;
  const auto leave = [&](uint64_t request) {
    state_->open_directories.ForEach([&](uint64_t fh, const DirectoryState&) { handle = fh; });
    state_->left.opens.AddDirectory(request, handle);
  };
  leave(5000);
  EXPECT_EQ(Resend(FUSE_OPENDIR, 5000, kRootNode, Raw(in)), 0);
  EXPECT_EQ(state_->open_directories.size(), 1u);
  EXPECT_EQ(state_->open_directories.Find(handle), nullptr);
  leave(5002);
  EXPECT_EQ(Resend(FUSE_OPENDIR, 5002, 1 << 20, Raw(in)), ESTALE);
  EXPECT_EQ(state_->open_directories.size(), 0u);
}

// The server has opened, and its reply comes after the EINTR of the killed caller.
TEST_F(LeftOpensTest, ALateReplyToTheOpenOfAKilledProgramLeavesNothing) {
  std::ofstream(Local("other")) << "x";
  const fuse_entry_out entry = Lookup(kRootNode, "other");
  const pid_t ended = fork();
  if (ended == 0) _exit(0);
  ASSERT_EQ(waitpid(ended, nullptr, 0), ended);
  const fuse_open_in in = {.flags = O_RDONLY, .open_flags = 0};
  fuse_create_in create = {};
  create.flags = O_RDWR | O_CREAT;
  create.mode = S_IFREG | 0644;
  const std::vector<std::pair<uint32_t, std::string>> opens = {
      {FUSE_OPEN, Raw(in)}, {FUSE_OPENDIR, Raw(in)}, {FUSE_CREATE, Raw(create) + Name("new")}};
  for (const auto& [opcode, body] : opens) {
    const uint64_t sent = holding_->sent;
    holding_->hold = true;
    kernel_.pid = static_cast<uint32_t>(ended);
    const uint64_t request =
        kernel_.Send(opcode, opcode == FUSE_OPEN ? entry.nodeid : kRootNode, body);
    while (holding_->sent == sent) sched_yield();
    kernel_.Send(FUSE_INTERRUPT, 0, Raw(fuse_interrupt_in{.unique = request}));
    const FakeKernel::Answer answer = kernel_.Receive();
    EXPECT_EQ(answer.unique, request);
    EXPECT_EQ(answer.error, EINTR) << opcode;
    while (opcode != FUSE_OPENDIR && server_->open_count() == 0) sched_yield();
    kernel_.pid = 0;
    holding_->hold = false;
    EXPECT_EQ(OpensAtServer(), 0u) << opcode;
    EXPECT_EQ(state_->open_files.size(), 0u) << opcode;
    EXPECT_EQ(state_->open_directories.size(), 0u) << opcode;
  }
  EXPECT_EQ(client_->opens().size(), 0u);
}

TEST_F(WorkerTest, ExclusiveCreateFailsIfTheFileExists) {
  Release(Create("there"));
  fuse_create_in in = {};
  in.flags = O_CREAT | O_EXCL | O_RDWR;
  in.mode = S_IFREG | 0600;
  EXPECT_EQ(kernel_.Call(FUSE_CREATE, kRootNode, Raw(in) + Name("there")).error, EEXIST);
  Created made = Create("new", O_EXCL | O_WRONLY);
  struct stat local;
  ASSERT_EQ(stat(Local("new").c_str(), &local), 0);
  EXPECT_EQ(local.st_mode, S_IFREG | 0644u);
  Release(made);
}

TEST_F(WorkerTest, OpenKeepsThePageCacheOnlyIfTheFileIsUnchanged) {
  Created created = Create("cached");
  uint64_t node = Lookup(kRootNode, "cached").nodeid;
  // Until the kernel has finished the first open, its pages may be of any age.
  EXPECT_FALSE(Open(node, O_RDONLY).open_flags & FOPEN_KEEP_CACHE);
  Release(created);
  fuse_open_out kept = Open(node, O_RDONLY);
  EXPECT_TRUE(kept.open_flags & FOPEN_KEEP_CACHE);
  EXPECT_FALSE(kept.open_flags & FOPEN_NOFLUSH);  // its close ends record locks
  EXPECT_TRUE(kernel_.notifications.empty());
  std::ofstream(Local("cached")) << "changed by another client";
  fuse_open_out dropped = Open(node, O_RDWR);
  EXPECT_FALSE(dropped.open_flags & (FOPEN_KEEP_CACHE | FOPEN_NOFLUSH));
  // The worker invalidates the kernel's cached size before it replies.
  ASSERT_EQ(kernel_.notifications.size(), 1u);
  EXPECT_EQ(kernel_.notifications[0].error, FUSE_NOTIFY_INVAL_INODE);
  EXPECT_EQ(kernel_.notifications[0].As<fuse_notify_inval_inode_out>().ino, node);
  EXPECT_EQ(kernel_.notifications[0].As<fuse_notify_inval_inode_out>().off, -1);
  EXPECT_TRUE(Open(node, O_RDONLY | O_DIRECT).open_flags & FOPEN_DIRECT_IO);
}

TEST_F(WorkerTest, AppendsGoToTheEndOfTheFileAtTheServer) {
  Created log = Create("log", O_WRONLY | O_APPEND);
  EXPECT_TRUE(log.open.open_flags & FOPEN_DIRECT_IO);
  std::ofstream(Local("log")) << "of another client;";
  fuse_write_in in = {};
  in.fh = log.open.fh;
  for (const int flags : {O_WRONLY, O_WRONLY | O_DSYNC, O_WRONLY | O_SYNC}) {
    in.size = 4;
    in.flags = static_cast<uint32_t>(flags | O_APPEND);
    FakeKernel::Answer answer = kernel_.Call(FUSE_WRITE, log.entry.nodeid, Raw(in) + "own;");
    EXPECT_EQ(answer.error, 0);
    EXPECT_EQ(answer.As<fuse_write_out>().size, 4u);
  }
  EXPECT_EQ(Content("log"), "of another client;own;own;own;");
  // Write-back of a mapped page keeps its offset.
  in.write_flags = FUSE_WRITE_CACHE;
  in.size = 2;
  EXPECT_EQ(kernel_.Call(FUSE_WRITE, log.entry.nodeid, Raw(in) + "OF").error, 0);
  EXPECT_EQ(Content("log"), "OF another client;own;own;own;");
}

TEST_F(WorkerTest, RangesAreAllocatedFoundAndCopied) {
  Created file = Create("ranges");
  fuse_fallocate_in fallocate = {};
  fallocate.fh = file.open.fh;
  fallocate.offset = 8192;
  fallocate.length = 100;
  EXPECT_EQ(kernel_.Call(FUSE_FALLOCATE, file.entry.nodeid, Raw(fallocate)).error, 0);
  fallocate.mode = 0x4000;
  EXPECT_EQ(kernel_.Call(FUSE_FALLOCATE, file.entry.nodeid, Raw(fallocate)).error, EOPNOTSUPP);
  EXPECT_EQ(Write(file, 8192, "data").error, 0);
  fuse_lseek_in lseek = {};
  lseek.fh = file.open.fh;
  lseek.whence = SEEK_DATA;
  FakeKernel::Answer found = kernel_.Call(FUSE_LSEEK, file.entry.nodeid, Raw(lseek));
  EXPECT_EQ(found.error, 0);
  EXPECT_EQ(found.As<fuse_lseek_out>().offset, 8192u);
  lseek.offset = 9000;
  EXPECT_EQ(kernel_.Call(FUSE_LSEEK, file.entry.nodeid, Raw(lseek)).error, ENXIO);
  lseek.whence = SEEK_END;
  EXPECT_EQ(kernel_.Call(FUSE_LSEEK, file.entry.nodeid, Raw(lseek)).error, EINVAL);
  fuse_copy_file_range_in copy = {};
  copy.fh_in = copy.fh_out = file.open.fh;
  copy.nodeid_out = file.entry.nodeid;
  copy.off_in = 8192;
  copy.len = 4;
  FakeKernel::Answer copied = kernel_.Call(FUSE_COPY_FILE_RANGE, file.entry.nodeid, Raw(copy));
  EXPECT_EQ(copied.error, 0);
  EXPECT_EQ(copied.As<fuse_write_out>().size, 4u);
  copy.off_out = 4;
  copied = kernel_.Call(kCopyFileRange64, file.entry.nodeid, Raw(copy));
  EXPECT_EQ(copied.As<CopyFileRangeOut>().bytes_copied, 4u);
  EXPECT_EQ(Content("ranges").substr(0, 9), std::string("datadata\0", 9));
  for (const uint32_t opcode : {FUSE_FALLOCATE, FUSE_LSEEK, FUSE_COPY_FILE_RANGE}) {
    EXPECT_EQ(kernel_.Call(opcode, file.entry.nodeid, std::string(56, '\377')).error, EBADF);
    EXPECT_EQ(kernel_.Call(opcode, file.entry.nodeid, "short").error, EINVAL);
  }
}

TEST_F(WorkerTest, AnUnnamedFileCanBeLinked) {
  fuse_create_in in = {};
  in.flags = O_RDWR | O_TMPFILE;
  in.mode = S_IFREG | 0600;
  FakeKernel::Answer answer = kernel_.Call(FUSE_TMPFILE, kRootNode, Raw(in) + Name(""));
  ASSERT_EQ(answer.error, 0);
  Created file = {answer.As<fuse_entry_out>(), answer.As<fuse_open_out>(sizeof(fuse_entry_out))};
  EXPECT_EQ(file.entry.attr.nlink, 0u);
  EXPECT_EQ(Write(file, 0, "hello").error, 0);
  fuse_link_in link = {.oldnodeid = file.entry.nodeid};
  answer = kernel_.Call(FUSE_LINK, kRootNode, Raw(link) + Name("named"));
  EXPECT_EQ(answer.error, 0);
  EXPECT_EQ(answer.As<fuse_entry_out>().attr.nlink, 1u);
  Release(file);
  EXPECT_EQ(Content("named"), "hello");
  EXPECT_EQ(kernel_.Call(FUSE_TMPFILE, kRootNode, "short").error, EINVAL);
}

TEST_F(WorkerTest, UnlinkedFilesStayUsableWhileTheyAreOpen) {
  Created file = Create("gone");
  EXPECT_EQ(Write(file, 0, "still here").error, 0);
  EXPECT_EQ(kernel_.Call(FUSE_UNLINK, kRootNode, Name("gone")).error, 0);
  EXPECT_EQ(kernel_.Call(FUSE_LOOKUP, kRootNode, Name("gone")).error, ENOENT);
  EXPECT_EQ(Read(file, 0, 100).body, "still here");
  // An open through /proc/self/fd, without a name. The first open fails with ESTALE, so that the
  // kernel looks the name up again. The retry without a lookup succeeds.
  fuse_open_in open = {};
  EXPECT_EQ(kernel_.Call(FUSE_OPEN, file.entry.nodeid, Raw(open)).error, ESTALE);
  fuse_open_out again = Open(file.entry.nodeid, O_RDONLY);
  Created second{file.entry, again};
  EXPECT_EQ(Read(second, 6, 100).body, "here");
  FakeKernel::Answer stat = kernel_.Call(FUSE_GETATTR, file.entry.nodeid, Raw(fuse_getattr_in{}));
  EXPECT_EQ(stat.As<fuse_attr_out>().attr.nlink, 0u);
}

TEST_F(WorkerTest, NamesAreMadeLinkedRenamedAndRemoved) {
  fuse_mkdir_in mkdir = {.mode = S_IFDIR | 0750, .umask = 022};
  FakeKernel::Answer made = kernel_.Call(FUSE_MKDIR, kRootNode, Raw(mkdir) + Name("dir"));
  ASSERT_EQ(made.error, 0);
  auto dir = made.As<fuse_entry_out>();
  EXPECT_EQ(dir.attr.mode, S_IFDIR | 0750u);
  EXPECT_EQ(dir.attr_valid, 30u);
  EXPECT_EQ(kernel_.Call(FUSE_MKDIR, kRootNode, Raw(mkdir) + Name("dir")).error, EEXIST);

  std::string target(3000, 't');
  FakeKernel::Answer link = kernel_.Call(FUSE_SYMLINK, dir.nodeid, Name("link") + Name(target));
  ASSERT_EQ(link.error, 0);
  EXPECT_EQ(kernel_.Call(FUSE_READLINK, link.As<fuse_entry_out>().nodeid, "").body, target);

  fuse_mknod_in mknod = {};
  mknod.mode = S_IFIFO | 0600;
  FakeKernel::Answer fifo = kernel_.Call(FUSE_MKNOD, dir.nodeid, Raw(mknod) + Name("fifo"));
  ASSERT_EQ(fifo.error, 0);
  EXPECT_EQ(fifo.As<fuse_entry_out>().attr.mode, S_IFIFO | 0600u);

  Created file = Create("file");
  Release(file);
  fuse_link_in hard = {.oldnodeid = file.entry.nodeid};
  FakeKernel::Answer linked = kernel_.Call(FUSE_LINK, dir.nodeid, Raw(hard) + Name("hard"));
  ASSERT_EQ(linked.error, 0);
  EXPECT_EQ(linked.As<fuse_entry_out>().nodeid, file.entry.nodeid);
  EXPECT_EQ(linked.As<fuse_entry_out>().attr.nlink, 2u);

  EXPECT_EQ(kernel_.Call(FUSE_RMDIR, kRootNode, Name("dir")).error, ENOTEMPTY);
  fuse_rename2_in rename = {.newdir = kRootNode, .flags = 0, .padding = 0};
  EXPECT_EQ(
      kernel_.Call(FUSE_RENAME2, dir.nodeid, Raw(rename) + Name("hard") + Name("moved")).error, 0);
  rename.flags = RENAME_NOREPLACE;
  EXPECT_EQ(kernel_.Call(FUSE_RENAME2, kRootNode, Raw(rename) + Name("moved") + Name("dir")).error,
            EEXIST);
  rename.flags = RENAME_WHITEOUT;
  EXPECT_EQ(kernel_.Call(FUSE_RENAME2, kRootNode, Raw(rename) + Name("moved") + Name("x")).error,
            EINVAL);
  EXPECT_TRUE(std::filesystem::exists(Local("moved")));
  EXPECT_FALSE(std::filesystem::exists(Local("dir/hard")));
  for (const char* name : {"link", "fifo"}) {
    EXPECT_EQ(kernel_.Call(FUSE_UNLINK, dir.nodeid, Name(name)).error, 0) << name;
  }
  EXPECT_EQ(kernel_.Call(FUSE_RMDIR, kRootNode, Name("dir")).error, 0);
}

TEST_F(WorkerTest, SetattrSetsModeOwnerSizeAndTimes) {
  Created file = Create("attributes");
  Write(file, 0, "0123456789");
  fuse_setattr_in in = {};
  in.valid = FATTR_MODE | FATTR_UID | FATTR_GID | FATTR_SIZE | FATTR_ATIME | FATTR_MTIME;
  in.mode = S_IFREG | 0600;
  in.uid = 12;
  in.gid = 34;
  in.size = 4;
  in.atime = 1000;
  in.atimensec = 1;
  in.mtime = static_cast<uint64_t>(-1000);
  in.mtimensec = 2;
  FakeKernel::Answer answer = kernel_.Call(FUSE_SETATTR, file.entry.nodeid, Raw(in));
  ASSERT_EQ(answer.error, 0);
  fuse_attr attr = answer.As<fuse_attr_out>().attr;
  EXPECT_EQ(attr.mode, S_IFREG | 0600u);
  EXPECT_EQ(attr.uid, 12u);
  EXPECT_EQ(attr.gid, 34u);
  EXPECT_EQ(attr.size, 4u);
  EXPECT_EQ(attr.atime, 1000u);
  EXPECT_EQ(static_cast<int64_t>(attr.mtime), -1000);
  EXPECT_EQ(attr.mtimensec, 2u);
  EXPECT_EQ(Content("attributes"), "0123");
}

TEST_F(WorkerTest, CallersHaveTheirOwnRights) {
  std::ofstream(Local("secret")) << "x";
  chmod(Local("secret").c_str(), 0600);
  uint64_t node = Lookup(kRootNode, "secret").nodeid;
  kernel_.uid = kernel_.gid = 1000;
  EXPECT_EQ(kernel_.Call(FUSE_OPEN, node, Raw(fuse_open_in{})).error, EACCES);
  fuse_access_in access = {.mask = R_OK, .padding = 0};
  EXPECT_EQ(kernel_.Call(FUSE_ACCESS, node, Raw(access)).error, EACCES);
  kernel_.uid = kernel_.gid = 0;
  EXPECT_EQ(kernel_.Call(FUSE_ACCESS, node, Raw(access)).error, 0);
}

// Returns the names in a READDIR reply. *offset becomes that of the last entry.
std::vector<std::string> Names(const std::string& body, uint64_t* offset, bool plus,
                               std::vector<uint64_t>* nodes = nullptr) {
  std::vector<std::string> names;
  for (size_t at = 0; at < body.size();) {
    if (plus) {
      fuse_entry_out entry = {};
      std::memcpy(&entry, body.data() + at, sizeof(entry));
      if (nodes != nullptr && entry.nodeid != 0) nodes->push_back(entry.nodeid);
      at += sizeof(entry);
    }
    fuse_dirent dirent = {};
    std::memcpy(&dirent, body.data() + at, FUSE_NAME_OFFSET);
    names.push_back(body.substr(at + FUSE_NAME_OFFSET, dirent.namelen));
    *offset = dirent.off;
    at += FUSE_DIRENT_ALIGN(FUSE_NAME_OFFSET + dirent.namelen);
  }
  return names;
}

TEST_F(WorkerTest, LargeDirectoriesAreListedCompletelyWithAndWithoutAttributes) {
  std::vector<std::string> expected = {".", ".."};
  for (int i = 0; i < 1000; ++i) {
    expected.push_back("entry" + std::to_string(i));
    std::ofstream(Local(expected.back())) << i;
  }
  for (uint32_t opcode : {FUSE_READDIR, FUSE_READDIRPLUS}) {
    bool plus = opcode == FUSE_READDIRPLUS;
    FakeKernel::Answer opened = kernel_.Call(FUSE_OPENDIR, kRootNode, Raw(fuse_open_in{}));
    ASSERT_EQ(opened.error, 0);
    fuse_read_in in = {};
    in.fh = opened.As<fuse_open_out>().fh;
    in.size = 4096;
    std::vector<std::string> found;
    std::vector<uint64_t> nodes;
    for (int round = 0; round < 2000; ++round) {
      FakeKernel::Answer part = kernel_.Call(opcode, kRootNode, Raw(in));
      ASSERT_EQ(part.error, 0);
      EXPECT_LE(part.body.size(), 4096u);
      if (part.body.empty()) break;
      std::vector<std::string> names = Names(part.body, &in.offset, plus, &nodes);
      found.insert(found.end(), names.begin(), names.end());
    }
    EXPECT_THAT(found, testing::UnorderedElementsAreArray(expected));
    EXPECT_EQ(state_->caches.inodes.size(), 1 + nodes.size());
    EXPECT_EQ(nodes.size(), plus ? 1000u : 0u);
    for (uint64_t node : nodes) {
      kernel_.Send(FUSE_FORGET, node, Raw(fuse_forget_in{.nlookup = 1}));
    }
    fuse_release_in release = {};
    release.fh = in.fh;
    EXPECT_EQ(kernel_.Call(FUSE_RELEASEDIR, kRootNode, Raw(release)).error, 0);
    EXPECT_EQ(state_->caches.inodes.size(), 1u);
    EXPECT_EQ(state_->open_directories.size(), 0u);
  }
}

// The kernel repeats a lookup only if the open fails with ESTALE.
TEST_F(WorkerTest, OpendirOfARemovedDirectoryFailsOnceAndItsRetrySucceeds) {
  for (bool listed : {true, false}) {  // whether the earlier open listed the directory
    std::filesystem::create_directory(Local("d"));
    const uint64_t node = Lookup(kRootNode, "d").nodeid;
    fuse_read_in read = {};
    read.size = 4096;
    fuse_release_in release = {};
    release.fh = read.fh =
        kernel_.Call(FUSE_OPENDIR, node, Raw(fuse_open_in{})).As<fuse_open_out>().fh;
    if (listed) {
      EXPECT_EQ(kernel_.Call(FUSE_READDIRPLUS, node, Raw(read)).error, 0);
    }
    EXPECT_EQ(kernel_.Call(FUSE_RELEASEDIR, node, Raw(release)).error, 0);
    std::filesystem::remove(Local("d"));
    EXPECT_EQ(kernel_.Call(FUSE_OPENDIR, node, Raw(fuse_open_in{})).error, ESTALE);
    FakeKernel::Answer opened = kernel_.Call(FUSE_OPENDIR, node, Raw(fuse_open_in{}));
    ASSERT_EQ(opened.error, 0);
    release.fh = read.fh = opened.As<fuse_open_out>().fh;
    // readdir(3) treats ENOENT as the end.
    EXPECT_EQ(kernel_.Call(FUSE_READDIRPLUS, node, Raw(read)).error, ENOENT);
    EXPECT_EQ(kernel_.Call(FUSE_RELEASEDIR, node, Raw(release)).error, 0);
  }
}

TEST_F(WorkerTest, AFileCreatedBetweenOpendirAndReaddirIsListed) {
  FakeKernel::Answer opened = kernel_.Call(FUSE_OPENDIR, kRootNode, Raw(fuse_open_in{}));
  Release(Create("new"));
  fuse_read_in in = {};
  in.fh = opened.As<fuse_open_out>().fh;
  in.size = 4096;
  std::vector<uint64_t> nodes;
  EXPECT_THAT(
      Names(kernel_.Call(FUSE_READDIRPLUS, kRootNode, Raw(in)).body, &in.offset, true, &nodes),
      testing::UnorderedElementsAre(".", "..", "new"));
}

// The listing was read before the write. Its size must not replace the newer one.
TEST_F(WorkerTest, ReaddirplusSendsNoAttributesIfTheDirectoryChangedSince) {
  for (int i = 0; i < 100; ++i) std::ofstream(Local("e" + std::to_string(i))) << "x";
  FakeKernel::Answer opened = kernel_.Call(FUSE_OPENDIR, kRootNode, Raw(fuse_open_in{}));
  fuse_read_in in = {};
  in.fh = opened.As<fuse_open_out>().fh;
  in.size = 4096;
  std::vector<uint64_t> nodes;
  Names(kernel_.Call(FUSE_READDIRPLUS, kRootNode, Raw(in)).body, &in.offset, true, &nodes);
  EXPECT_FALSE(nodes.empty());
  Release(Create("new"));  // the listing no longer matches the directory
  nodes.clear();
  std::string body = kernel_.Call(FUSE_READDIRPLUS, kRootNode, Raw(in)).body;
  EXPECT_FALSE(Names(body, &in.offset, true, &nodes).empty());
  EXPECT_TRUE(nodes.empty());
}

TEST_F(WorkerTest, StatfsReturnsTheSizeOfTheExportedFileSystem) {
  FakeKernel::Answer answer = kernel_.Call(FUSE_STATFS, kRootNode, "");
  ASSERT_EQ(answer.error, 0);
  EXPECT_GT(answer.As<fuse_statfs_out>().st.blocks, 0u);
  EXPECT_EQ(answer.As<fuse_statfs_out>().st.namelen, 255u);
}

TEST_F(WorkerTest, UnknownOpcodesFailWithEnosys) {
  for (uint32_t opcode : {uint32_t{FUSE_BMAP}, uint32_t{FUSE_POLL}, uint32_t{9999}}) {
    EXPECT_EQ(kernel_.Call(opcode, kRootNode, std::string(100, 'x')).error, ENOSYS) << opcode;
  }
  EXPECT_EQ(kernel_.Call(FUSE_POLL, kRootNode, std::string(70000, 'x')).error, ENOSYS);
}

TEST_F(WorkerTest, MalformedRequestsAreRefusedAndTheNextOneIsServed) {
  // A body that is too short, an unknown node, an unknown handle: each gets an error reply.
  for (uint32_t opcode : {1u,  3u,  4u,  6u,  8u,  9u,  10u, 11u, 12u, 13u, 14u, 15u,
                          16u, 20u, 21u, 22u, 23u, 24u, 25u, 28u, 34u, 35u, 44u, 45u}) {
    EXPECT_GT(kernel_.Call(opcode, kRootNode, "").error, 0) << opcode;
    EXPECT_GT(kernel_.Call(opcode, kRootNode, "x").error, 0) << opcode;
    EXPECT_GT(kernel_.Call(opcode, 123456789, std::string(200, '\xff')).error, 0) << opcode;
  }
  kernel_.SendRaw("short");
  uint64_t unique = kernel_.Send(FUSE_GETATTR, kRootNode, Raw(fuse_getattr_in{}), 4096);
  FakeKernel::Answer answer = kernel_.Receive();
  EXPECT_EQ(answer.unique, unique);
  EXPECT_EQ(answer.error, EIO);
  kernel_.Send(FUSE_FORGET, 5, "x");
  kernel_.Send(FUSE_BATCH_FORGET, 5, Raw(fuse_batch_forget_in{.count = 1000000, .dummy = 0}));
  kernel_.Send(FUSE_INTERRUPT, 0, "x");
  kernel_.Send(FUSE_INTERRUPT, 0, Raw(fuse_interrupt_in{.unique = 4711}));
  kernel_.Send(FUSE_NOTIFY_REPLY, kRootNode, Raw(fuse_notify_retrieve_in{}));
  // A WRITE whose size and length disagree.
  Created file = Create("file");
  fuse_write_in write = {};
  write.fh = file.open.fh;
  write.size = 1000;
  EXPECT_EQ(kernel_.Call(FUSE_WRITE, file.entry.nodeid, Raw(write) + "abc").error, EINVAL);
  EXPECT_EQ(kernel_.Call(FUSE_GETATTR, kRootNode, Raw(fuse_getattr_in{})).error, 0);
}

TEST_F(WorkerTest, ManyRequestsInFlightAreAllAnswered) {
  Created file = Create("many");
  Write(file, 0, std::string(1 << 20, 'm'));
  fuse_read_in in = {};
  in.fh = file.open.fh;
  in.size = 65536;
  std::vector<uint64_t> sent;
  // More requests than the pool has buffers: some wait, and all are answered.
  for (uint64_t i = 0; i < 64; ++i) {
    in.offset = (i % 16) * 65536;
    sent.push_back(kernel_.Send(FUSE_READ, file.entry.nodeid, Raw(in)));
  }
  std::vector<uint64_t> answered;
  for (size_t i = 0; i < sent.size(); ++i) {
    FakeKernel::Answer answer = kernel_.Receive();
    EXPECT_EQ(answer.error, 0);
    EXPECT_EQ(answer.body.size(), 65536u);
    answered.push_back(answer.unique);
  }
  EXPECT_THAT(answered, testing::UnorderedElementsAreArray(sent));
}

TEST_F(WorkerTest, EndsWhenTheKernelHangsUp) {
  Create("open");
  kernel_.HangUp();
  EXPECT_TRUE(ended_.WaitForNotificationWithTimeout(absl::Seconds(20)));
}

TEST_F(WorkerTest, StopEndsTheWorkerEvenIfTheServerIsGone) {
  server_->Stop();
  kernel_.Send(FUSE_LOOKUP, kRootNode, Name("never answered"));
  worker_->Stop();
  EXPECT_TRUE(ended_.WaitForNotificationWithTimeout(absl::Seconds(20)));
}

TEST_F(WorkerTest, StatfsIsAnsweredEvenIfTheServerIsGone) {
  server_->Stop();
  EXPECT_EQ(kernel_.Call(FUSE_STATFS, kRootNode, "").error, 0);
}

}  // namespace
}  // namespace dafs::fuse
