// The attributes and the limits of the protocol that the server supports.
// Spec: 6.1.5, 6.1.6; WIRE 5.
#include <set>

#include "tests/server/store/store_fixture.h"

namespace dafs::server {
namespace {

class StoreSupportedTest : public StoreTest {
 protected:
  wire::FsAttributes FsAttributes(uint64_t bitmap = UINT64_MAX) {
    wire::FsAttributes attributes;
    EXPECT_OK(store_->attributes().GetFsattr(user_, A(), bitmap, &attributes));
    return attributes;
  }
  DafsStatus SetAs(const Caller& caller, const wire::FileHandle& file,
                   const wire::FileAttributes& attributes) {
    uint64_t set = 0;
    const DafsStatus status = store_->attributes().Setattr(caller, file, {}, attributes, &set);
    EXPECT_EQ(set, status == DafsStatus::kOk ? attributes.valid : 0);
    return status;
  }
  DafsStatus Set(const wire::FileHandle& file, const wire::FileAttributes& attributes) {
    return SetAs(root_, file, attributes);
  }
};

// Shows DAFS-6.1.5-03, DAFS-6.1.5-04, DAFS-6.5.13-01
TEST_F(StoreSupportedTest, AnySubsetOfAttributesCanBeRequested) {
  Start();
  WriteFile(Path("a/f"), "content");
  const wire::FileHandle file = Handle({"a", "f"});
  const uint64_t supported = FsAttributes().supported_fattr;
  EXPECT_NE(supported & ~wire::kFattrMandatory, 0u);
  const wire::FileAttributes all = Attributes(file);
  for (int number = 1; number <= 64; ++number) {
    SCOPED_TRACE(number);
    const uint64_t bit = uint64_t{1} << (number - 1);
    const wire::FileAttributes one = Attributes(file, bit);
    EXPECT_EQ(one.included, number <= 25 ? bit : 0);
    EXPECT_EQ(one.valid, all.valid & bit);
    const bool write_only = (wire::kFattrWriteOnly & bit) != 0;
    EXPECT_EQ(one.valid, write_only ? 0 : supported & bit);
    const wire::FileAttributes others = Attributes(file, ~bit);
    EXPECT_EQ(others.included, wire::kFattrAll & ~bit);
    EXPECT_EQ(others.valid, all.valid & ~bit);
  }
}

// The server refuses settable attributes that it cannot store; it does not silently ignore them.
TEST_F(StoreSupportedTest, UnsupportedAttributesCannotBeSet) {
  Start();
  WriteFile(Path("a/f"), "content");
  const wire::FileHandle file = Handle({"a", "f"});
  const uint64_t supported = FsAttributes().supported_fattr;
  for (const uint64_t bit : {wire::kFattrArchive, wire::kFattrHidden, wire::kFattrSystem,
                             wire::kFattrTimeBackup, wire::kFattrMimeType}) {
    EXPECT_EQ(supported & bit, 0u) << bit;
  }
  const wire::FileAttributes before = Attributes(file);
  for (const uint64_t bit :
       {wire::kFattrArchive, wire::kFattrHidden, wire::kFattrSystem, wire::kFattrTimeBackup,
        wire::kFattrTimeCreate, wire::kFattrTimeMetadata, wire::kFattrMimeType}) {
    wire::FileAttributes attributes;
    attributes.set(bit);
    attributes.archive = attributes.hidden = attributes.system = true;
    attributes.mime_type = "text/plain";
    EXPECT_DAFS(kInval, Set(file, attributes)) << bit;
  }
  EXPECT_EQ(Attributes(file), before);
}

// Shows DAFS-6.1.5-12
TEST_F(StoreSupportedTest, FileIdIsUniqueInItsFileSystem) {
  Start();
  WriteFile(Path("a/f"), "content");
  WriteFile(Path("a/g"), "content");
  ASSERT_EQ(link(Path("a/f").c_str(), Path("a/link").c_str()), 0);
  ASSERT_OK(Create(root_, A(), "d", wire::ObjectType::kDir));
  ASSERT_OK(Create(root_, Handle({"a", "d"}), "symlink", wire::ObjectType::kLnk));
  std::set<uint64_t> ids;
  for (const wire::Pathname& path :
       {wire::Pathname{"a"}, {"a", "f"}, {"a", "g"}, {"a", "d"}, {"a", "d", "symlink"}}) {
    EXPECT_EQ(Handle(path).fshandle, A().fshandle);
    EXPECT_TRUE(ids.insert(Attributes(Handle(path)).file_id).second) << path.back();
  }
  EXPECT_EQ(Attributes(Handle({"a", "link"})).file_id, Attributes(Handle({"a", "f"})).file_id);
  // The directories that lead to the exports form a file system of their own.
  ASSERT_EQ(Handle({}).fshandle, Handle({"deep"}).fshandle);
  EXPECT_NE(Attributes(Handle({})).file_id, Attributes(Handle({"deep"})).file_id);
}

// Shows DAFS-6.1.6-02: each policy holds in every directory, and each object reports the same.
TEST_F(StoreSupportedTest, FileSystemHasItsPoliciesEverywhere) {
  Start();
  const auto policies = [&](const wire::FileHandle& object) {
    wire::FsAttributes of_object;
    EXPECT_OK(store_->attributes().GetFsattr(user_, object, wire::kFsattrAll, &of_object));
    of_object.files_available = of_object.files_free = of_object.files_total = 0;
    of_object.space_available = of_object.space_free = of_object.space_total = 0;
    return of_object;
  };
  const wire::FsAttributes a = policies(A());
  ASSERT_TRUE(a.has(wire::kFsattrHomogeneous) && a.homogeneous);
  EXPECT_TRUE(a.case_preserving && !a.case_insensitive && a.chown_restricted && a.no_trunc);
  wire::FileHandle d;
  ASSERT_OK(Create(user_, A(), "d", wire::ObjectType::kDir, &d));
  for (const wire::FileHandle& directory : {A(), d}) {
    const Opened lower = MustOpen(user_, CreateArgs(directory, "name", 0644));
    const Opened upper = MustOpen(user_, CreateArgs(directory, "NAME", 0644));
    EXPECT_NE(lower.filehandle, upper.filehandle);
    EXPECT_THAT(Names(user_, directory), testing::IsSupersetOf({"name", "NAME"}));
    wire::FileHandle link;
    ASSERT_OK(Create(user_, directory, "link", wire::ObjectType::kLnk, &link));
    EXPECT_DAFS(kNameTooLong,
                Create(user_, directory, std::string(a.max_name + 1, 'n'), wire::ObjectType::kDir));
    wire::FileAttributes owner, group;
    owner.set(wire::kFattrOwner);
    owner.owner = "1001";
    EXPECT_DAFS(kPerm, SetAs(user_, lower.filehandle, owner));
    group.set(wire::kFattrOwnerGroup);
    group.owner_group = "2000";
    EXPECT_DAFS(kPerm, SetAs(user_, lower.filehandle, group));
    EXPECT_OK(SetAs(root_, lower.filehandle, owner));
    for (const wire::FileHandle& object : {directory, lower.filehandle, link}) {
      EXPECT_EQ(policies(object), a);
    }
  }
}

// Shows DAFS-6.1.6-15
TEST_F(StoreSupportedTest, FileSystemAttribute31IsNotAssigned) {
  Start();
  constexpr uint64_t k31 = uint64_t{1} << 30;
  EXPECT_EQ(FsAttributes().included & k31, 0u);
  EXPECT_EQ(FsAttributes().supported_fsattr & k31, 0u);
  EXPECT_EQ(FsAttributes(k31 | wire::kFsattrMaxAppend).included, wire::kFsattrMaxAppend);
}

// Shows DAFS-6.1.6-10, DAFS-6.5.27-04, DAFS-6.5.38-15
TEST_F(StoreSupportedTest, TransfersAndFilesStayWithinReportedLimits) {
  StoreOptions options = Options();
  options.max_read = 1000;
  options.max_write = 2000;
  options.pref_io_size = 500;
  Start(options);
  const wire::FsAttributes limits = FsAttributes();
  EXPECT_EQ(limits.max_read, 1000u);
  EXPECT_EQ(limits.max_write, 2000u);
  EXPECT_EQ(limits.pref_io_size, 500u);
  EXPECT_TRUE(limits.has(wire::kFsattrMaxRead | wire::kFsattrMaxWrite | wire::kFsattrPrefIoSize |
                         wire::kFsattrMaxFileSize));
  const Opened f = MustOpen(user_, CreateArgs(A(), "f"));
  EXPECT_DAFS(kWriteTooBig, Write(user_, f, 0, std::string(2001, 'x')));
  EXPECT_OK(Write(user_, f, 0, std::string(2000, 'x')));
  ReadResult result;
  EXPECT_EQ(Read(user_, f, 0, 2000, &result).size(), 1000u);
  EXPECT_FALSE(result.eof);
  EXPECT_EQ(Read(user_, f, 1000, 2000, &result).size(), 1000u);
  EXPECT_TRUE(result.eof);
  wire::FileAttributes size;
  size.set(wire::kFattrObjectSize);
  size.object_size = limits.max_file_size + 1;
  EXPECT_DAFS(kFbig, Set(f.filehandle, size));
  EXPECT_DAFS(kFbig, Write(user_, f, limits.max_file_size, "x"));
  EXPECT_EQ(Attributes(f.filehandle).object_size, 2000u);
}

}  // namespace
}  // namespace dafs::server
