// Attributes and permissions: GETATTR, SETATTR, ACCESS, GET_FSATTR, VERIFY.
#include <sys/statvfs.h>

#include <ctime>

#include "server/store/objects/object.h"
#include "server/store/objects/recent_stats.h"
#include "tests/server/store/store_fixture.h"

namespace dafs::server {
namespace {

using testing::ElementsAre;
using wire::ObjectType;
using wire::TimeSetHow;

class StoreAttributesTest : public StoreTest {
 protected:
  void SetUp() override {
    StoreTest::SetUp();
    if (!IsSkipped()) Start();
  }
  DafsStatus Set(const Caller& caller, const wire::FileHandle& handle,
                 const wire::FileAttributes& attributes, uint64_t* set = nullptr,
                 const wire::StateId& state_id = {}) {
    uint64_t unused = 0;
    return store_->attributes().Setattr(caller, handle, state_id, attributes,
                                        set != nullptr ? set : &unused);
  }
  DafsStatus SetMode(const Caller& caller, const wire::FileHandle& handle, uint32_t mode) {
    wire::FileAttributes attributes;
    attributes.set(wire::kFattrMode);
    attributes.mode = mode;
    return Set(caller, handle, attributes);
  }
  // The rights that ACCESS grants when all are requested.
  uint32_t Rights(const Caller& caller, const wire::FileHandle& handle) {
    wire::AccessArgs args;
    args.filehandle = handle;
    args.access = wire::kAccessAll;
    wire::AccessRes res;
    EXPECT_OK(store_->attributes().Access(caller, args, &res));
    EXPECT_EQ(res.access & ~res.supported, 0u);
    EXPECT_EQ(res.supported & wire::kAccessDelete, 0u);
    return res.access;
  }
};

// A chained GETATTR makes no further system call for an object that the preceding request has
// accessed, created or changed. A GETATTR that is not chained always makes one.
TEST_F(StoreAttributesTest, ChainedGetattrReusesAttributesOfPrecedingRequest) {
  const wire::FileHandle top = A();
  WriteFile(Path("a/f"), "", 0644);
  RecentStats recent;
  Caller chained = root_;
  chained.recent = &recent;
  wire::FileHandle file;
  ASSERT_OK(Lookup(chained, top, "f", &file));
  chmod(Path("a/f").c_str(), 0600);
  const auto mode_of = [&](const Caller& caller, const wire::FileHandle& handle) {
    wire::FileAttributes attributes;
    EXPECT_OK(store_->attributes().Getattr(caller, handle, wire::kFattrMode, &attributes));
    return attributes.mode;
  };
  EXPECT_EQ(mode_of(chained, file), 0644u);
  EXPECT_EQ(mode_of(root_, file), 0600u);
  recent.Clear();
  EXPECT_EQ(mode_of(chained, file), 0600u);

  wire::RemoveArgs remove;
  remove.filehandle = top;
  remove.target = "f";
  wire::RemoveRes removed;
  ASSERT_OK(store_->names().Remove(chained, remove, &removed));
  wire::FileAttributes attributes;
  ASSERT_OK(store_->attributes().Getattr(chained, top, wire::kFattrChange | wire::kFattrMode,
                                         &attributes));
  EXPECT_EQ(attributes.change, removed.change_info.after);
  chmod(Path("a").c_str(), 0700);
  EXPECT_EQ(mode_of(chained, top), 0777u);
  EXPECT_EQ(mode_of(root_, top), 0700u);
}

// Shows DAFS-4.1.3.3-01, DAFS-6.1.5-17, DAFS-6.1.5-01, DAFS-6.1.5-05, DAFS-6.1.5-13, DAFS-6.1.5-19
TEST_F(StoreAttributesTest, GetattrMatchesStat) {
  WriteFile(Path("a/f"), "hello", 04751);
  ASSERT_EQ(chown(Path("a/f").c_str(), 1000, 2000), 0);
  chmod(Path("a/f").c_str(), 04751);
  const wire::FileHandle handle = Handle({"a", "f"});
  const wire::FileAttributes a = Attributes(handle, UINT64_MAX);
  const struct stat st = Stat(Path("a/f"));
  EXPECT_EQ(a.included, wire::kFattrAll);
  EXPECT_EQ(a.valid & wire::kFattrWriteOnly, 0u);
  EXPECT_EQ(a.valid & (wire::kFattrMimeType | wire::kFattrTimeBackup | wire::kFattrHidden), 0u);
  EXPECT_TRUE(a.has(wire::kFattrMandatory | wire::kFattrTimeCreate));
  EXPECT_EQ(a.object_type, ObjectType::kReg);
  EXPECT_EQ(a.mode, 04751u);
  EXPECT_EQ(a.num_links, 1u);
  EXPECT_EQ(a.object_size, 5u);
  EXPECT_EQ(a.file_id, st.st_ino);
  EXPECT_EQ(a.space_used, static_cast<uint64_t>(st.st_blocks) * 512);
  EXPECT_EQ(a.time_modify.seconds, st.st_mtim.tv_sec);
  EXPECT_EQ(a.time_modify.nseconds, st.st_mtim.tv_nsec);
  EXPECT_EQ(a.time_metadata.nseconds, st.st_ctim.tv_nsec);
  EXPECT_LE(a.time_create, a.time_metadata);
  EXPECT_EQ(a.time_delta, (wire::Time{0, 1}));
  EXPECT_EQ(a.owner, "1000");
  EXPECT_EQ(a.owner_group, "2000");
  EXPECT_EQ(a.filehandle, handle);
  const wire::FileAttributes some = Attributes(handle, wire::kFattrObjectSize);
  EXPECT_EQ(some.included, wire::kFattrObjectSize);
  EXPECT_EQ(some.valid, wire::kFattrObjectSize);
}

// Shows DAFS-6.5.35-02 (on success), DAFS-6.5.35-03, DAFS-6.5.35-04, DAFS-6.5.35-06, DAFS-6.1.5-14,
// DAFS-6.1.4-05, DAFS-6.1.5-11, DAFS-6.1.6-07 (the access time)
TEST_F(StoreAttributesTest, SetattrSetsAllGivenAttributes) {
  const Opened f = MustOpen(user_, CreateArgs(A(), "f", 0600));
  ASSERT_OK(Write(user_, f, 0, "0123456789"));
  wire::FileAttributes attributes;
  attributes.set(wire::kFattrObjectSize | wire::kFattrMode | wire::kFattrTimeAccessSet |
                 wire::kFattrTimeModifySet);
  attributes.object_size = 4;
  attributes.mode = 0640;
  attributes.time_access_set = {{-5, 1}, TimeSetHow::kSetToClientTime};
  attributes.time_modify_set = {{1234567890, 999999999}, TimeSetHow::kSetToClientTime};
  uint64_t set = 0;
  ASSERT_OK(Set(user_, f.filehandle, attributes, &set, f.state_id));
  EXPECT_EQ(set, attributes.valid);
  wire::FileAttributes now = Attributes(f.filehandle);
  EXPECT_EQ(now.object_size, 4u);
  EXPECT_EQ(now.mode, 0640u);
  EXPECT_EQ(now.time_access, (wire::Time{-5, 1}));
  EXPECT_EQ(now.time_modify, (wire::Time{1234567890, 999999999}));
  attributes = {};
  attributes.set(wire::kFattrObjectSize);
  attributes.object_size = 8;
  ASSERT_OK(Set(user_, f.filehandle, attributes));
  EXPECT_EQ(Read(user_, f), std::string("0123\0\0\0\0", 8));
  EXPECT_GT(Attributes(f.filehandle).time_modify.seconds, 1234567890);
  attributes = {};
  attributes.set(wire::kFattrTimeModifySet);
  attributes.time_modify_set.how = TimeSetHow::kSetToServerTime;
  attributes.included |= wire::kFattrHidden;  // included but not valid: ignored
  ASSERT_OK(Set(user_, f.filehandle, attributes, &set));
  EXPECT_EQ(set, wire::kFattrTimeModifySet);
  ASSERT_OK(Set(user_, f.filehandle, {}, &set));
  EXPECT_EQ(set, 0u);
  ASSERT_OK(Close(user_, f));
  EXPECT_DAFS(kBadStateId, Set(user_, f.filehandle, attributes, &set, f.state_id));
}

// Shows DAFS-6.1.4-06 (server): each of the two times is chosen on its own.
TEST_F(StoreAttributesTest, TimeIsSetToTimeOfClientOrServer) {
  const Opened f = MustOpen(user_, CreateArgs(A(), "f", 0600));
  const auto now = [](clockid_t clock) {
    timespec t;
    clock_gettime(clock, &t);
    return wire::Time{t.tv_sec, static_cast<uint32_t>(t.tv_nsec)};
  };
  const wire::Time access{11, 22}, modify{33, 44};
  for (const TimeSetHow access_how : {TimeSetHow::kSetToClientTime, TimeSetHow::kSetToServerTime}) {
    for (const TimeSetHow modify_how :
         {TimeSetHow::kSetToClientTime, TimeSetHow::kSetToServerTime}) {
      wire::FileAttributes times;
      times.set(wire::kFattrTimeAccessSet | wire::kFattrTimeModifySet);
      times.time_access_set = {access, access_how};
      times.time_modify_set = {modify, modify_how};
      const wire::Time before = now(CLOCK_REALTIME_COARSE);  // the clock of the file system
      ASSERT_OK(Set(user_, f.filehandle, times));
      const wire::Time after = now(CLOCK_REALTIME);
      const wire::FileAttributes a = Attributes(f.filehandle);
      const auto expect = [&](const wire::Time& time, TimeSetHow how, const wire::Time& client) {
        if (how == TimeSetHow::kSetToClientTime) {
          EXPECT_EQ(time, client);
        } else {
          EXPECT_GE(time, before);
          EXPECT_LE(time, after);
        }
      };
      expect(a.time_access, access_how, access);
      expect(a.time_modify, modify_how, modify);
    }
  }
}

// Shows DAFS-6.1.5-16
TEST_F(StoreAttributesTest, TimeCreateIsTimeOfCreation) {
  const Opened f = MustOpen(user_, CreateArgs(A(), "f", 0600));
  Store::RestoreServerIdentity();
  struct statx st = {};
  ASSERT_EQ(statx(AT_FDCWD, Path("a/f").c_str(), 0, STATX_BTIME, &st), 0);
  if ((st.stx_mask & STATX_BTIME) == 0) GTEST_SKIP() << "no birth times in " << base_;
  const wire::Time created = Attributes(f.filehandle).time_create;
  EXPECT_EQ(created, (wire::Time{st.stx_btime.tv_sec, st.stx_btime.tv_nsec}));
  wire::FileAttributes after;
  do {  // until the clock of the file system has advanced
    ASSERT_OK(SetMode(user_, f.filehandle, 0640));
    ASSERT_OK(Write(user_, f, 0, "x"));
    after = Attributes(f.filehandle);
  } while (after.time_metadata == created || after.time_modify == created);
  EXPECT_EQ(after.time_create, created);
  ASSERT_OK(Rename(user_, A(), "f", A(), "g"));
  EXPECT_EQ(Attributes(f.filehandle).time_create, created);
}

// Shows DAFS-6.5.35-02 (on failure), DAFS-6.5.35-07, DAFS-6.5.35-09, DAFS-7-03 (PERM), DAFS-7-10
TEST_F(StoreAttributesTest, SetattrRefusesUnsupportedAttributesAndValues) {
  const Opened f = MustOpen(user_, CreateArgs(A(), "f", 0600));
  uint64_t set = 0;
  for (uint64_t bit : {wire::kFattrHidden, wire::kFattrMimeType, wire::kFattrTimeCreate,
                       wire::kFattrNumLinks, wire::kFattrTimeModify, wire::kFattrFileId}) {
    wire::FileAttributes attributes;
    attributes.set(bit | wire::kFattrMode);
    EXPECT_DAFS(kInval, Set(user_, f.filehandle, attributes, &set)) << bit;
    EXPECT_EQ(set, 0u);
  }
  EXPECT_EQ(Attributes(f.filehandle).mode, 0600u);
  EXPECT_DAFS(kInval, SetMode(user_, f.filehandle, 010000));
  EXPECT_DAFS(kPerm, SetMode(other_, f.filehandle, 0666));
  wire::FileAttributes attributes;
  attributes.set(wire::kFattrOwner | wire::kFattrMode);
  attributes.mode = 0644;
  attributes.owner = "1001";
  EXPECT_DAFS(kPerm, Set(user_, f.filehandle, attributes, &set));
  for (const std::string bad : {"", "root", "-1", " 5", "4294967295", "99999999999"}) {
    attributes.owner = bad;
    EXPECT_DAFS(kInval, Set(root_, f.filehandle, attributes)) << bad;
  }
  attributes.owner = "1001";
  ASSERT_OK(Set(root_, f.filehandle, attributes, &set));
  EXPECT_EQ(Attributes(f.filehandle).owner, "1001");
  attributes = {};
  attributes.set(wire::kFattrTimeModifySet);
  attributes.time_modify_set = {{0, 1'000'000'000}, TimeSetHow::kSetToClientTime};
  EXPECT_DAFS(kInval, Set(other_, f.filehandle, attributes));
  attributes = {};
  attributes.set(wire::kFattrObjectSize);
  EXPECT_DAFS(kInval, Set(root_, A(), attributes));
  attributes.object_size = UINT64_MAX;
  EXPECT_DAFS(kFbig, Set(root_, f.filehandle, attributes));
}

TEST_F(StoreAttributesTest, SymbolicLinksHaveOwnersAndTimes) {
  wire::FileHandle link;
  ASSERT_OK(Create(root_, A(), "l", ObjectType::kLnk, &link));
  wire::FileAttributes attributes;
  attributes.set(wire::kFattrOwner | wire::kFattrTimeModifySet);
  attributes.owner = "77";
  attributes.time_modify_set = {{5, 0}, TimeSetHow::kSetToClientTime};
  ASSERT_OK(Set(root_, link, attributes));
  EXPECT_EQ(Attributes(link).owner, "77");
  EXPECT_EQ(Attributes(link).time_modify.seconds, 5);
  EXPECT_DAFS(kInval, SetMode(root_, link, 0600));
}

// Shows DAFS-6.5.2-01, DAFS-6.5.2-02, DAFS-6.5.2-08
TEST_F(StoreAttributesTest, AccessReturnsKernelDecisionForCaller) {
  constexpr uint32_t kChange = wire::kAccessModify | wire::kAccessExtend;
  WriteFile(Path("a/f"), "x");
  ASSERT_EQ(chown(Path("a/f").c_str(), 1000, 2000), 0);
  chmod(Path("a/f").c_str(), 0741);
  const wire::FileHandle f = Handle({"a", "f"});
  EXPECT_EQ(Rights(user_, f), wire::kAccessRead | kChange | wire::kAccessExecute);
  EXPECT_EQ(Rights(other_, f), wire::kAccessExecute);
  Caller member = other_;
  const uint32_t groups[] = {3, 2000};
  member.groups = groups;
  EXPECT_EQ(Rights(member, f), wire::kAccessRead);
  EXPECT_EQ(Rights(root_, f), wire::kAccessRead | kChange | wire::kAccessExecute);
  EXPECT_EQ(Rights(other_, A()),
            wire::kAccessRead | kChange | wire::kAccessLookup | wire::kAccessExecute);
  EXPECT_EQ(Rights(user_, Handle({})),
            wire::kAccessRead | wire::kAccessLookup | wire::kAccessExecute);
  wire::AccessArgs args;
  args.filehandle = f;
  args.access = 0x40;
  wire::AccessRes res;
  EXPECT_DAFS(kInval, store_->attributes().Access(user_, args, &res));
  args.access = wire::kAccessRead;
  EXPECT_OK(store_->attributes().Access(user_, args, &res));
  EXPECT_EQ(res.supported, wire::kAccessRead);
}

// Shows DAFS-6.5.2-04 (server)
TEST_F(StoreAttributesTest, AccessRightsHaveTheBitsOfTheSpecification) {
  constexpr uint32_t kRead = 0x1, kLookup = 0x2, kModify = 0x4, kExtend = 0x8, kExecute = 0x20;
  EXPECT_EQ(wire::kAccessDelete, 0x10u);
  WriteFile(Path("a/f"), "x");
  mkdir(Path("a/d").c_str(), 0777);
  const std::pair<mode_t, uint32_t> of_file[] = {
      {04, kRead}, {02, kModify | kExtend}, {01, kExecute}, {0, 0}};
  const std::pair<mode_t, uint32_t> of_directory[] = {
      {04, kRead}, {03, kModify | kExtend | kLookup | kExecute}, {01, kLookup | kExecute}, {0, 0}};
  for (const auto& [mode, rights] : of_file) {
    ASSERT_OK(SetMode(root_, Handle({"a", "f"}), mode));
    EXPECT_EQ(Rights(user_, Handle({"a", "f"})), rights) << mode;
  }
  for (const auto& [mode, rights] : of_directory) {
    ASSERT_OK(SetMode(root_, Handle({"a", "d"}), mode));
    EXPECT_EQ(Rights(user_, Handle({"a", "d"})), rights) << mode;
  }
}

// Shows DAFS-6.1.6-01, DAFS-6.1.6-13, DAFS-6.5.15-01, DAFS-6.1.6-05, DAFS-4.4.1.2-53
TEST_F(StoreAttributesTest, GetFsattrMatchesStatfs) {
  wire::FsAttributes a;
  ASSERT_OK(store_->attributes().GetFsattr(user_, A(), UINT64_MAX, &a));
  EXPECT_EQ(a.included, wire::kFsattrAll);
  EXPECT_TRUE(a.has(wire::kFsattrMandatory));
  EXPECT_FALSE(a.has(wire::kFsattrQuotaHard));
  struct statvfs vfs;
  ASSERT_EQ(statvfs(Path("a").c_str(), &vfs), 0);
  EXPECT_EQ(a.space_total, vfs.f_blocks * vfs.f_frsize);
  EXPECT_EQ(a.files_total, vfs.f_files);
  EXPECT_EQ(a.max_name, 255u);
  EXPECT_EQ(a.fshandle, A().fshandle);
  EXPECT_GE(a.max_append, 65536u);
  EXPECT_EQ(a.lease_time, 60u);
  EXPECT_EQ(a.fh_expire_type, wire::kFhPersistent);
  ASSERT_OK(store_->attributes().GetFsattr(user_, Handle({}), wire::kFsattrMandatory, &a));
  EXPECT_EQ(a.included, wire::kFsattrMandatory);
  EXPECT_EQ(a.lease_time, 60u);
  EXPECT_EQ(a.fshandle, Handle({}).fshandle);
}

// Shows DAFS-6.1.6-03, DAFS-6.1.6-04, DAFS-6.1.6-07 (the modification time)
TEST_F(StoreAttributesTest, FileSystemBehavesAsItsAttributesState) {
  wire::FsAttributes a;
  ASSERT_OK(store_->attributes().GetFsattr(user_, A(), UINT64_MAX, &a));
  const Opened f = MustOpen(user_, CreateArgs(A(), "Name", 0644));
  EXPECT_TRUE(a.case_preserving && !a.case_insensitive);
  EXPECT_THAT(Names(user_, A()), ElementsAre("Name"));
  EXPECT_DAFS(kNoEnt, Lookup(user_, A(), "name"));
  EXPECT_TRUE(a.no_trunc);
  EXPECT_OK(Create(user_, A(), std::string(a.max_name, 'n'), ObjectType::kDir));
  EXPECT_DAFS(kNameTooLong, Create(user_, A(), std::string(a.max_name + 1, 'n'), ObjectType::kDir));
  EXPECT_TRUE(a.unique_handle && a.link_support && a.max_link > 1);
  wire::LinkArgs link;
  link.source_object = f.filehandle;
  link.destination_object = A();
  link.newname = "link";
  wire::LinkRes linked;
  ASSERT_OK(store_->names().Link(user_, link, &linked));
  EXPECT_EQ(Handle({"a", "link"}), f.filehandle);
  EXPECT_TRUE(a.symlink_support);
  EXPECT_OK(Create(user_, A(), "symlink", ObjectType::kLnk));
  EXPECT_TRUE(a.chown_restricted && a.can_set_time);
  wire::FileAttributes owner, time;
  owner.set(wire::kFattrOwner);
  owner.owner = "1001";
  EXPECT_DAFS(kPerm, Set(user_, f.filehandle, owner));
  time.set(wire::kFattrTimeModifySet);
  time.time_modify_set = {{77, 0}, TimeSetHow::kSetToClientTime};
  EXPECT_OK(Set(user_, f.filehandle, time));
  EXPECT_EQ(Attributes(f.filehandle).time_modify.seconds, 77);
}

// Shows DAFS-6.5.37-01, DAFS-6.5.23-01
TEST_F(StoreAttributesTest, VerifyComparesValidAttributes) {
  const Opened f = MustOpen(user_, CreateArgs(A(), "f", 0600));
  wire::FileAttributes a = Attributes(f.filehandle);
  a.included = a.valid;
  EXPECT_OK(store_->attributes().Verify(user_, f.filehandle, a));
  EXPECT_DAFS(kSame, store_->attributes().Nverify(user_, f.filehandle, a));
  EXPECT_OK(store_->attributes().Verify(user_, f.filehandle, {}));
  EXPECT_DAFS(kSame, store_->attributes().Nverify(user_, f.filehandle, {}));
  ASSERT_OK(Write(user_, f, 0, "x"));
  EXPECT_DAFS(kNotSame, store_->attributes().Verify(user_, f.filehandle, a));
  EXPECT_OK(store_->attributes().Nverify(user_, f.filehandle, a));
  a = {};
  a.set(wire::kFattrOwner);
  a.owner = "1000";
  EXPECT_OK(store_->attributes().Verify(user_, f.filehandle, a));
  a.set(wire::kFattrTimeModifySet);
  EXPECT_DAFS(kNotSupp, store_->attributes().Verify(user_, f.filehandle, a));
  EXPECT_DAFS(kNotSupp, store_->attributes().Nverify(user_, f.filehandle, a));
}

// Shows DAFS-7-03 (ACCES)
TEST_F(StoreAttributesTest, KernelDecidesPermissions) {
  wire::FileHandle d;
  ASSERT_OK(Create(user_, A(), "d", ObjectType::kDir, &d));
  ASSERT_OK(SetMode(user_, d, 0700));
  MustOpen(user_, CreateArgs(d, "f", 0666));
  EXPECT_DAFS(kAcces, Lookup(other_, d, "f"));
  std::vector<Entry> entries;
  ReaddirResult res;
  EXPECT_DAFS(kAcces, List(other_, d, 0, 100, &entries, &res));
  EXPECT_DAFS(kAcces, Create(other_, d, "x", ObjectType::kDir));
  wire::OpenRes open_res;
  EXPECT_DAFS(kAcces, store_->opens().Open(other_, OpenArgs(d, "f"), &open_res));
  EXPECT_DAFS(kAcces, store_->opens().Open(other_, CreateArgs(d, "g"), &open_res));
  EXPECT_DAFS(kAcces, Remove(other_, d, "f"));
  EXPECT_DAFS(kAcces, Rename(other_, d, "f", A(), "f"));
  EXPECT_DAFS(kAcces, Rename(other_, A(), "d", d, "x"));
  EXPECT_OK(Lookup(root_, d, "f"));  // no_root_squash
  EXPECT_DAFS(kPerm, Create(other_, A(), "dev", ObjectType::kChr));
  EXPECT_OK(Create(root_, A(), "dev", ObjectType::kChr));
}

TEST_F(StoreAttributesTest, StickyDirectoriesProtectNames) {
  ASSERT_OK(SetMode(root_, A(), 01777));
  MustOpen(user_, CreateArgs(A(), "f", 0666));
  EXPECT_DAFS(kPerm, Remove(other_, A(), "f"));
  EXPECT_DAFS(kPerm, Rename(other_, A(), "f", A(), "g"));
  MustOpen(other_, CreateArgs(A(), "h", 0666));
  EXPECT_DAFS(kPerm, Rename(other_, A(), "h", A(), "f"));
  EXPECT_OK(Rename(user_, A(), "f", A(), "g"));
  EXPECT_OK(Remove(user_, A(), "g"));
  EXPECT_OK(Remove(root_, A(), "h"));
}

TEST_F(StoreAttributesTest, SquashedCallersBecomeAnonymous) {
  exports_[1].squash = Squash::kRoot;
  exports_[1].anonuid = 4001;
  exports_[1].anongid = 4002;
  exports_.push_back(Named("/all", "a"));
  exports_[2].squash = Squash::kAll;
  exports_[2].anonuid = 4003;
  Start();
  const wire::FileHandle b = Handle({"deep", "b"});
  wire::FileAttributes a = Attributes(MustOpen(root_, CreateArgs(b, "r")).filehandle);
  EXPECT_EQ(a.owner, "4001");
  EXPECT_EQ(a.owner_group, "4002");
  EXPECT_EQ(Attributes(MustOpen(user_, CreateArgs(b, "u")).filehandle).owner, "1000");
  WriteFile(Path("b/secret"), "x", 0600);
  wire::OpenRes res;
  EXPECT_DAFS(kAcces, store_->opens().Open(root_, OpenArgs(b, "secret"), &res));
  EXPECT_DAFS(kPerm, SetMode(root_, Handle({"deep", "b", "secret"}), 0666));
  // The same for a supplementary group of root.
  Store::RestoreServerIdentity();
  ASSERT_EQ(chown(Path("b/secret").c_str(), 0, 0), 0);
  WriteFile(Path("b/secret"), "x", 0060);
  Caller member = user_;
  const uint32_t groups[] = {0};
  member.groups = groups;
  EXPECT_DAFS(kAcces, store_->opens().Open(member, OpenArgs(b, "secret"), &res));
  member.gid = 0;
  EXPECT_DAFS(kAcces, store_->opens().Open(member, OpenArgs(b, "secret"), &res));
  EXPECT_EQ(Attributes(MustOpen(user_, CreateArgs(Handle({"all"}), "x")).filehandle).owner, "4003");
}

TEST_F(StoreAttributesTest, ReadOnlyExportRefusesChanges) {
  WriteFile(Path("a/f"), "x", 0666);
  mkdir(Path("a/d").c_str(), 0777);
  exports_[0].read_only = true;
  Start();
  const wire::FileHandle f = Handle({"a", "f"});
  wire::OpenRes res;
  EXPECT_DAFS(kRofs, store_->opens().Open(root_, OpenArgs(A(), "f"), &res));
  EXPECT_DAFS(kRofs, store_->opens().Open(root_, CreateArgs(A(), "g"), &res));
  const Opened opened = MustOpen(root_, OpenArgs(A(), "f", wire::kShareRead));
  EXPECT_EQ(Read(root_, opened), "x");
  EXPECT_DAFS(kRofs, Write(root_, opened, 0, "y"));
  EXPECT_DAFS(kRofs, Write(root_, {f, {}}, 0, "y"));
  EXPECT_DAFS(kRofs, SetMode(root_, f, 0600));
  EXPECT_DAFS(kRofs, Create(root_, A(), "e", ObjectType::kDir));
  EXPECT_DAFS(kRofs, Remove(root_, A(), "f"));
  EXPECT_DAFS(kRofs, Rename(root_, A(), "f", A(), "g"));
  wire::LinkArgs link;
  link.source_object = f;
  link.destination_object = A();
  link.newname = "l";
  wire::LinkRes link_res;
  EXPECT_DAFS(kRofs, store_->names().Link(root_, link, &link_res));
  EXPECT_EQ(Rights(root_, f), wire::kAccessRead);
  EXPECT_EQ(FileContent(Path("a/f")), "x");
}

// Shows DAFS-4.1.4-08: they do not see the path to the export either.
TEST_F(StoreAttributesTest, ClientsOutsideExportListAreRefused) {
  exports_[0].clients = {Cidr::Parse("192.0.2.0/24").value()};
  Start();
  Caller inside = root_;
  inside.peer.address = PeerAddress::Parse("192.0.2.5").value();
  Caller outside = root_;
  outside.peer.address = PeerAddress::Parse("198.51.100.5").value();
  const wire::FileHandle root = Handle({});
  wire::FileHandle a;
  ASSERT_OK(Lookup(inside, root, "a", &a));
  EXPECT_DAFS(kNoEnt, Lookup(outside, root, "a"));
  EXPECT_THAT(Names(inside, root), ElementsAre("a", "deep"));
  EXPECT_THAT(Names(outside, root), ElementsAre("deep"));
  const Opened f = MustOpen(inside, CreateArgs(a, "f", 0666));
  wire::FileAttributes attributes;
  EXPECT_DAFS(kAcces, store_->attributes().Getattr(outside, a, 1, &attributes));
  EXPECT_EQ(Read(outside, f), "DAFSERR_ACCES");
  EXPECT_DAFS(kAcces, Write(outside, {f.filehandle, {}}, 0, "x"));
}

}  // namespace
}  // namespace dafs::server
