#include "fuse/cache/node_path.h"

#include <gtest/gtest.h>

#include "tests/fuse/cache/node_fixture.h"

namespace dafs::fuse {
namespace {

using NodePathTest = NodeFixture;

TEST_F(NodePathTest, PathsLeadFromTheRoot) {
  const client::Attributes directory = File(1, wire::ObjectType::kDir);
  const uint64_t outer = table_.Remember(Handle(1), directory, {kRootNode, "a"});
  const uint64_t inner = table_.Remember(Handle(2), directory, {outer, "b"});
  const uint64_t file = table_.Remember(Handle(3), File(1), {inner, "c"});
  EXPECT_EQ(PathOf(table_, kRootNode), "/");
  EXPECT_EQ(PathOf(table_, outer), "/a");
  EXPECT_EQ(PathOf(table_, file), "/a/b/c");
}

TEST_F(NodePathTest, AnUnknownNodeOrParentHasNoPath) {
  const uint64_t file = table_.Remember(Handle(3), File(1), {9999, "c"});
  EXPECT_EQ(PathOf(table_, file), "");
  EXPECT_EQ(PathOf(table_, 8888), "");
}

TEST_F(NodePathTest, ACircleOfMovedDirectoriesEnds) {
  const client::Attributes directory = File(1, wire::ObjectType::kDir);
  const uint64_t one = table_.Remember(Handle(1), directory, {kRootNode, "a"});
  const uint64_t two = table_.Remember(Handle(2), directory, {one, "b"});
  table_.Remember(Handle(1), directory, {two, "a"});
  EXPECT_EQ(PathOf(table_, one), "");
}

}  // namespace
}  // namespace dafs::fuse
