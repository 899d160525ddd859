// The private procedures RENAME2, OPEN_EXECUTE and MAKE_NODE for POSIX systems, and behaviour of
// OPEN, SETATTR and RENAME that Linux expects in addition to the specification.
#include "wire/messages/posix.h"

#include <sys/sysmacros.h>

#include "tests/server/store/store_fixture.h"

namespace dafs::server {
namespace {

using wire::ObjectType;

class StorePosixTest : public StoreTest {
 protected:
  void SetUp() override {
    StoreTest::SetUp();
    if (!IsSkipped()) Start();
  }

  DafsStatus Rename2(const std::string& from, const std::string& to, uint32_t flags,
                     wire::Rename2Res* res) {
    wire::Rename2Args args;
    args.sourcedir = args.targetdir = A();
    args.oldname = from;
    args.newname = to;
    args.flags = flags;
    return store_->names().Rename2(root_, args, res);
  }
  DafsStatus Rename2(const std::string& from, const std::string& to, uint32_t flags) {
    wire::Rename2Res res;
    return Rename2(from, to, flags, &res);
  }

  DafsStatus MakeNode(const Caller& caller, const std::string& name, ObjectType type, uint32_t mode,
                      wire::FileHandle* handle = nullptr) {
    wire::MakeNodeArgs args;
    args.filehandle = A();
    args.component = name;
    args.obj_type = type;
    args.specdata = {1, 3};
    args.mode = mode;
    wire::MakeNodeRes res;
    const DafsStatus status = store_->names().MakeNode(caller, args, &res);
    if (handle != nullptr) *handle = res.filehandle;
    return status;
  }

  DafsStatus OpenExecute(const Caller& caller, const wire::FileHandle& file, Opened* opened) {
    wire::OpenExecuteArgs args;
    args.filehandle = file;
    args.owner = "exec";
    wire::OpenExecuteRes res;
    const DafsStatus status = store_->opens().OpenExecute(caller, args, &res);
    *opened = {res.filehandle, res.state_id};
    return status;
  }

  struct stat Stat(const std::string& name) {
    struct stat st = {};
    EXPECT_EQ(lstat(Path("a/" + name).c_str(), &st), 0) << name;
    return st;
  }
};

TEST_F(StorePosixTest, RenameWithoutReplaceFailsIfNameExists) {
  WriteFile(Path("a/one"), "1");
  WriteFile(Path("a/two"), "2");
  EXPECT_DAFS(kExist, Rename2("one", "two", wire::kRenameNoReplace));
  EXPECT_EQ(Stat("one").st_size, 1);
  wire::Rename2Res res;
  EXPECT_OK(Rename2("one", "three", wire::kRenameNoReplace, &res));
  EXPECT_NE(res.source.before, res.source.after);
  EXPECT_DAFS(kNoEnt, Rename2("one", "four", wire::kRenameNoReplace));
}

TEST_F(StorePosixTest, ExchangeNeedsBothNamesAndKeepsTheirOpenFiles) {
  const Opened one = MustOpen(user_, CreateArgs(A(), "one"));
  EXPECT_OK(Write(user_, one, 0, "first"));
  ASSERT_OK(Create(root_, A(), "dir", ObjectType::kDir));
  const uint64_t before = Attributes(one.filehandle).change;
  EXPECT_OK(Rename2("one", "dir", wire::kRenameExchange));
  EXPECT_TRUE(S_ISDIR(Stat("one").st_mode));
  EXPECT_TRUE(S_ISREG(Stat("dir").st_mode));
  EXPECT_EQ(Stat("dir").st_nlink, 1u);
  EXPECT_NE(Attributes(one.filehandle).change, before);
  EXPECT_EQ(Read(user_, one), "first");
  EXPECT_DAFS(kNoEnt, Rename2("one", "none", wire::kRenameExchange));
  EXPECT_OK(Close(user_, one));
}

TEST_F(StorePosixTest, NodesHaveTheirModeFromCreation) {
  EXPECT_OK(MakeNode(user_, "fifo", ObjectType::kFifo, 0640));
  EXPECT_EQ(Stat("fifo").st_mode, S_IFIFO | 0640u);
  EXPECT_EQ(Stat("fifo").st_uid, 1000u);
  EXPECT_OK(MakeNode(user_, "closed", ObjectType::kSock, 0));
  EXPECT_EQ(Stat("closed").st_mode, static_cast<mode_t>(S_IFSOCK));
  wire::FileHandle regular;
  EXPECT_OK(MakeNode(user_, "set-id", ObjectType::kReg, 06755, &regular));
  EXPECT_EQ(Stat("set-id").st_mode, S_IFREG | 06755u);
  EXPECT_EQ(Attributes(regular).object_type, ObjectType::kReg);
  EXPECT_OK(MakeNode(root_, "null", ObjectType::kChr, 0600));
  EXPECT_EQ(Stat("null").st_rdev, makedev(1, 3));
  EXPECT_DAFS(kPerm, MakeNode(user_, "mine", ObjectType::kBlk, 0600));
  EXPECT_DAFS(kExist, MakeNode(user_, "fifo", ObjectType::kFifo, 0600));
}

TEST_F(StorePosixTest, ExecuteOnlyFileIsOpenedForExecution) {
  const Opened f = MustOpen(user_, CreateArgs(A(), "f", 0711));
  EXPECT_OK(Write(user_, f, 0, "program"));
  Opened opened;
  ASSERT_OK(OpenExecute(other_, f.filehandle, &opened));
  EXPECT_EQ(Read(other_, opened), "program");
  EXPECT_DAFS(kAcces, Write(other_, opened, 0, "x"));
  EXPECT_OK(Close(other_, opened));
  Store::RestoreServerIdentity();
  ASSERT_EQ(chmod(Path("a/f").c_str(), 0744), 0);  // read permission is sufficient
  EXPECT_OK(OpenExecute(other_, f.filehandle, &opened));
  EXPECT_OK(Close(other_, opened));
  Store::RestoreServerIdentity();
  ASSERT_EQ(chmod(Path("a/f").c_str(), 0722), 0);
  EXPECT_DAFS(kAcces, OpenExecute(other_, f.filehandle, &opened));
  EXPECT_DAFS(kIsDir, OpenExecute(other_, A(), &opened));
}

TEST_F(StorePosixTest, FileRemovedOnServerIsStaleUnlessOpen) {
  const Opened open = MustOpen(root_, CreateArgs(A(), "open"));
  const Opened closed = MustOpen(root_, CreateArgs(A(), "closed"));
  EXPECT_OK(Close(root_, closed));
  Store::RestoreServerIdentity();
  ASSERT_EQ(unlink(Path("a/open").c_str()), 0);
  ASSERT_EQ(unlink(Path("a/closed").c_str()), 0);
  wire::OpenHandleArgs args;
  args.share_access = wire::kShareRead;
  args.owner = "again";
  wire::OpenHandleRes res;
  args.filehandle = closed.filehandle;
  EXPECT_DAFS(kStale, store_->opens().OpenHandle(root_, args, &res));
  args.filehandle = open.filehandle;
  EXPECT_OK(store_->opens().OpenHandle(root_, args, &res));
}

// Spec 6.5.24: change_info shows whether the OPEN created the file.
TEST_F(StorePosixTest, OpenOfExistingFileReportsUnchangedDirectory) {
  WriteFile(Path("a/f"), "x");
  const uint64_t before = Attributes(A()).change;
  wire::OpenRes res;
  ASSERT_OK(store_->opens().Open(root_, CreateArgs(A(), "f"), &res));
  EXPECT_EQ(res.change_info.before, res.change_info.after);
  EXPECT_EQ(Attributes(A()).change, before);
  ASSERT_OK(store_->opens().Open(root_, CreateArgs(A(), "g"), &res));
  EXPECT_NE(res.change_info.before, res.change_info.after);
}

TEST_F(StorePosixTest, FilesAreCreatedWithRequestedSetIdBits) {
  Caller outsider = user_;
  ASSERT_EQ(chown(Path("a").c_str(), 0, 4000), 0);
  ASSERT_EQ(chmod(Path("a").c_str(), 02777), 0);
  MustOpen(outsider, CreateArgs(A(), "f", 02745));
  EXPECT_EQ(Stat("f").st_mode & 07777, 02745u);  // the mandatory-lock bit; only chmod(2) refuses it
  EXPECT_EQ(Stat("f").st_gid, 4000u);
}

TEST_F(StorePosixTest, EmptySetattrClearsSetIdBitsAndChangesCtime) {
  const Opened f = MustOpen(user_, CreateArgs(A(), "f", 06755));
  EXPECT_OK(Close(user_, f));
  ASSERT_EQ(Stat("f").st_mode & 07777, 06755u);
  const uint64_t before = Attributes(f.filehandle).change;
  uint64_t set = 1;
  EXPECT_OK(store_->attributes().Setattr(user_, f.filehandle, {}, wire::FileAttributes(), &set));
  EXPECT_EQ(set, 0u);
  EXPECT_EQ(Stat("f").st_mode & 07777, 0755u);
  EXPECT_NE(Attributes(f.filehandle).change, before);
}

}  // namespace
}  // namespace dafs::server
