// The handle of the root at a server whose handles expire. Spec: 4.1.4.
#include "client/state/server/root_handle.h"

#include <optional>
#include <string>
#include <vector>

#include "tests/client/scripted_fixture.h"

namespace dafs::client::testing {
namespace {

using wire::DafsStatus;
using wire::Proc;

wire::FileHandle Handle(uint8_t number) {
  wire::FileHandle handle;
  handle.fshandle.bytes[0] = 1;
  handle.fileid.bytes[0] = 'r';
  handle.fileid.bytes[1] = number;
  return handle;
}

TEST(RootHandleTest, EachEarlierHandleMapsToTheLatest) {
  RootHandle root;
  EXPECT_FALSE(root.Present(wire::FileHandle()).has_value());
  root.Found(Handle(1));
  EXPECT_EQ(root.Present(Handle(1)), Handle(1));
  EXPECT_FALSE(root.renewed());
  root.Renew(Handle(1), Handle(2));
  EXPECT_TRUE(root.renewed());
  root.Renew(Handle(1), Handle(9));  // too late: the handle was renewed already
  EXPECT_FALSE(root.Present(Handle(9)).has_value());
  root.Renew(Handle(2), Handle(1));  // a handle may return
  EXPECT_EQ(root.Present(Handle(2)), Handle(1));
  for (uint8_t i = 1; i < 200; ++i) root.Renew(Handle(i), Handle(static_cast<uint8_t>(i + 1)));
  EXPECT_EQ(root.Present(Handle(1)), Handle(200));
  EXPECT_EQ(root.Present(Handle(199)), Handle(200));
  EXPECT_FALSE(root.Present(Handle(100)).has_value()) << "the root keeps fewer handles";
}

class ExpiringRootTest : public ScriptedTest {
 protected:
  void SetUp() override {
    server_.script = [this](ScriptedConnection& c, const Request& request) {
      switch (request.header.procedure) {
        case Proc::kGetRootHandle: {
          wire::GetRootHandleRes res;
          res.root_handle = c.current = Handle(root_);
          c.Answer(request, res);
          return true;
        }
        case Proc::kLookup:
          return Expired(c, request, request.Decode<wire::LookupArgs>().directory);
        case Proc::kRename: {
          const auto args = request.Decode<wire::RenameArgs>();
          return Expired(c, request, args.sourcedir) || Expired(c, request, args.targetdir);
        }
        case Proc::kGetattrInline: {
          if ((request.header.chain_flags & wire::kChfFh) != 0) return false;
          return Expired(c, request, request.Decode<wire::GetattrInlineArgs>().filehandle);
        }
        default:
          return false;
      }
    };
    MakeFiles();
    absl::StatusOr<Node> root = Await(files_->Mount(user_));
    ASSERT_OK(root);
    first_ = root->handle;
    EXPECT_EQ(first_, Handle(1));
  }
  bool Expired(ScriptedConnection& c, const Request& request, const wire::FileHandle& handle) {
    if (handle.fileid.bytes[0] != 'r' || handle == Handle(root_)) return false;
    c.Refuse(request, DafsStatus::kFhExpired);
    return true;
  }

  uint8_t root_ = 1;
  wire::FileHandle first_;
};

// Shows DAFS-4.1.4-29
TEST_F(ExpiringRootTest, IsFoundAgainByItsPath) {
  for (int times = 1; times <= 3; ++times) {
    ++root_;
    ASSERT_OK(Await(files_->names().Lookup(user_, first_, "name")));
    ASSERT_OK(Await(files_->attributes().GetAttributes(user_, first_)));
    ASSERT_OK(Await(files_->names().Rename(user_, first_, "a", first_, "b")));
    EXPECT_EQ(server_.Count(Proc::kGetRootHandle), 1 + times);
  }
  ++root_;
  wire::FileHandle other;
  other.fileid.bytes[0] = 'x';
  ASSERT_OK(Await(files_->names().Rename(user_, first_, "a", other, "b")));
  EXPECT_EQ(server_.executed[Proc::kRename], 4);
}

class ExportPathTest : public ScriptedTest {};

// Shows DAFS-A.4.2-01: one LOOKUP of all components, from the handle that GET_ROOT_HANDLE returns.
TEST_F(ExportPathTest, IsLookedUpByItsComponentsFromTheRoot) {
  options_.export_path = {"a", "b"};
  std::optional<wire::FileHandle> from;
  std::vector<wire::Pathname> paths;
  server_.script = [&](ScriptedConnection& c, const Request& request) {
    if (request.header.procedure == Proc::kGetRootHandle) {
      wire::GetRootHandleRes res;
      res.root_handle = c.current = Handle(1);
      c.Answer(request, res);
      return true;
    }
    if (request.header.procedure == Proc::kLookup) {
      const auto args = request.Decode<wire::LookupArgs>();
      from = (request.header.chain_flags & wire::kChfFh) != 0 ? c.current : args.directory;
      paths.push_back(args.path);
    }
    return false;
  };
  MakeFiles();
  absl::StatusOr<Node> root = Await(files_->Mount(user_));
  ASSERT_OK(root);
  EXPECT_NE(root->handle, Handle(1));
  EXPECT_EQ(from, Handle(1));
  ASSERT_EQ(paths.size(), 1u);
  EXPECT_EQ(paths[0], (wire::Pathname{"a", "b"}));
  server_.script = nullptr;
}

TEST_F(ExpiringRootTest, ErrorIsReturnedIfTheServerHasNoOtherHandle) {
  server_.script = [](ScriptedConnection& c, const Request& request) {
    if (request.header.procedure != Proc::kGetattrInline) {
      if (request.header.procedure != Proc::kGetRootHandle) return false;
      wire::GetRootHandleRes res;
      res.root_handle = Handle(1);
      c.Answer(request, res);
      return true;
    }
    c.Refuse(request, DafsStatus::kFhExpired);
    return true;
  };
  absl::Status status = Await(files_->attributes().GetAttributes(user_, first_)).status();
  EXPECT_EQ(wire::DafsFromStatus(status), DafsStatus::kFhExpired);
  EXPECT_EQ(server_.Count(Proc::kGetRootHandle), 2);
  wire::FileHandle other;
  other.fileid.bytes[0] = 'x';
  status = Await(files_->attributes().GetAttributes(user_, other)).status();
  EXPECT_EQ(wire::DafsFromStatus(status), DafsStatus::kFhExpired);
  EXPECT_EQ(server_.Count(Proc::kGetRootHandle), 2);
}

}  // namespace
}  // namespace dafs::client::testing
