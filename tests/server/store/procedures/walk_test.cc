// LOOKUP of symbolic links, and change_info of directories.
#include <unistd.h>

#include "tests/server/store/store_fixture.h"

namespace dafs::server {
namespace {

using wire::ObjectType;

class StoreWalkTest : public StoreTest {
 protected:
  void SetUp() override {
    StoreTest::SetUp();
    if (!IsSkipped()) Start();
  }
};

// Shows DAFS-6.5.21-11: LOOKUP returns the link itself, not its target.
TEST_F(StoreWalkTest, LookupFollowsNoLink) {
  wire::FileHandle d;
  ASSERT_OK(Create(root_, A(), "d", ObjectType::kDir, &d));
  WriteFile(Path("a/d/f"), "x");
  ASSERT_EQ(symlink("d", Path("a/to-d").c_str()), 0);
  ASSERT_EQ(symlink("d/f", Path("a/to-f").c_str()), 0);
  for (const std::string name : {"to-d", "to-f"}) {
    wire::FileHandle link;
    ASSERT_OK(Lookup(root_, A(), name, &link));
    EXPECT_EQ(Attributes(link).object_type, ObjectType::kLnk);
  }
  wire::LookupArgs args;
  args.directory = A();
  args.path = {"to-d", "f"};
  wire::LookupRes res;
  EXPECT_DAFS(kSymlink, store_->names().Lookup(root_, args, &res));
  EXPECT_EQ(res.component_count, 1u);
  EXPECT_EQ(res.filehandle, Handle({"a", "to-d"}));
}

// Shows DAFS-6.1.4-04: another program may change a directory between the reads of `before` and
// `after`. If the server reads once, both are equal.
TEST_F(StoreWalkTest, OnlyUnchangedDirectoryIsReportedAsAtomic) {
  wire::OpenRes opened;
  ASSERT_OK(store_->opens().Open(user_, CreateArgs(A(), "f"), &opened));
  EXPECT_FALSE(opened.change_info.atomic);
  ASSERT_OK(store_->opens().Open(user_, OpenArgs(A(), "f"), &opened));
  EXPECT_TRUE(opened.change_info.atomic);
  EXPECT_EQ(opened.change_info.before, opened.change_info.after);
  EXPECT_EQ(opened.change_info.after, Attributes(A()).change);

  wire::CreateArgs create;
  create.filehandle = A();
  create.component = "d";
  create.obj_type = ObjectType::kDir;
  wire::CreateRes created;
  ASSERT_OK(store_->names().Create(user_, create, &created));
  EXPECT_FALSE(created.change_info.atomic);
  wire::LinkArgs link;
  link.source_object = opened.filehandle;
  link.destination_object = A();
  link.newname = "g";
  wire::LinkRes linked;
  ASSERT_OK(store_->names().Link(user_, link, &linked));
  EXPECT_FALSE(linked.change_info.atomic);
  wire::RenameArgs rename;
  rename.sourcedir = A();
  rename.targetdir = created.filehandle;
  rename.oldname = rename.newname = "g";
  wire::RenameRes renamed;
  ASSERT_OK(store_->names().Rename(user_, rename, &renamed));
  EXPECT_FALSE(renamed.source.atomic || renamed.target.atomic);
  wire::RemoveArgs remove;
  remove.filehandle = A();
  remove.target = "f";
  wire::RemoveRes removed;
  ASSERT_OK(store_->names().Remove(user_, remove, &removed));
  EXPECT_FALSE(removed.change_info.atomic);
}

}  // namespace
}  // namespace dafs::server
