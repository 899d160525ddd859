// Extended attributes and ACLs against the real server. Spec: 4.1.5, 6.5.25, 4.4.3.
#include <sys/xattr.h>

#include <algorithm>
#include <ostream>

#include "tests/client/server_fixture.h"
#include "wire/protocol/status.h"

namespace dafs::client {
namespace {

using testing::UnorderedElementsAre;
using wire::DafsStatus;

// Both byte orders, with and without checksums, and with messages too small for large values.
struct Way {
  wire::ByteOrder order;
  bool checksums;
  uint32_t message_bytes;

  std::string Name() const {
    return std::string(order == wire::ByteOrder::kBig ? "Big" : "Little") +
           (checksums ? "Summed" : "Plain") + std::to_string(message_bytes);
  }
  friend void PrintTo(const Way& way, std::ostream* out) { *out << way.Name(); }
};

class FilesXattrsTest : public ServerTest, public testing::WithParamInterface<Way> {
 protected:
  void SetUp() override {
    ServerTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    MakeLocal("file", "data");
    chmod(Local("file").c_str(), 0644);
    if (setxattr(Local("file").c_str(), "user.probe", "", 0, 0) != 0) {
      GTEST_SKIP() << "the file system of /tmp has no user attributes";
    }
    removexattr(Local("file").c_str(), "user.probe");
    ClientOptions options = Options();
    options.byte_order = GetParam().order;
    options.checksums = GetParam().checksums;
    options.max_request_size = options.max_response_size = GetParam().message_bytes;
    StartClient(std::move(options));
    absl::StatusOr<Node> node = Await(files_->names().Lookup(root_user_, root_.handle, "file"));
    ASSERT_STATUS_OK(node);
    file_ = node->handle;
  }

  DafsStatus Set(const std::string& name, const std::string& value,
                 XattrMode mode = XattrMode::kAny) {
    absl::Status status = Await(files_->xattrs().SetXattr(root_user_, file_, name, value, mode));
    return wire::DafsFromStatus(status);
  }
  std::string Get(const std::string& name) {
    absl::StatusOr<std::string> value = Await(files_->xattrs().GetXattr(root_user_, file_, name));
    return value.ok() ? *value : std::string(wire::Name(wire::DafsFromStatus(value.status())));
  }
  std::string Behind(const std::string& name) {
    char value[65536];
    const ssize_t n = getxattr(Local("file").c_str(), name.c_str(), value, sizeof value);
    return n < 0 ? "none" : std::string(value, static_cast<size_t>(n));
  }

  wire::FileHandle file_;
};

TEST_P(FilesXattrsTest, ValueIsSetAndReadBack) {
  const std::string binary("a\0b\xff", 4);
  EXPECT_EQ(Set("user.value", binary), DafsStatus::kOk);
  EXPECT_EQ(Behind("user.value"), binary);
  EXPECT_EQ(Get("user.value"), binary);
  EXPECT_EQ(Set("user.value", ""), DafsStatus::kOk);
  EXPECT_EQ(Behind("user.value"), "");
  EXPECT_EQ(Get("user.value"), "");
  EXPECT_EQ(Get("user.none"), "DAFSERR_NOENT");
}

// A value that does not fit into a message is transferred by RDMA. A shorter value leaves no rest
// of a longer one.
TEST_P(FilesXattrsTest, ValuesOfEverySizeAreSetAndReadBack) {
  for (size_t size : {100u, 900u, 2000u, 3000u}) {
    const std::string value(size, static_cast<char>('a' + size % 26));
    ASSERT_EQ(Set("user.value", value), DafsStatus::kOk) << size;
    EXPECT_EQ(Behind("user.value"), value);
    EXPECT_EQ(Get("user.value"), value);
  }
  ASSERT_EQ(Set("user.value", "short", XattrMode::kReplace), DafsStatus::kOk);
  EXPECT_EQ(Get("user.value"), "short");
  EXPECT_EQ(Set("user.value", std::string(65537, 'x')), DafsStatus::kFbig);
  // The file system accepts the largest size, or returns an error. Then the old value remains.
  const DafsStatus most = Set("user.value", std::string(65536, 'x'));
  if (most == DafsStatus::kOk) {
    EXPECT_EQ(Get("user.value"), std::string(65536, 'x'));
  } else {
    EXPECT_EQ(most, DafsStatus::kNoSpc);
    EXPECT_EQ(Get("user.value"), "short");
  }
}

TEST_P(FilesXattrsTest, CreateAndReplaceAreExact) {
  EXPECT_EQ(Set("user.a", "1", XattrMode::kReplace), DafsStatus::kNoEnt);
  EXPECT_EQ(Set("user.a", "1", XattrMode::kCreate), DafsStatus::kOk);
  EXPECT_EQ(Set("user.a", "2", XattrMode::kCreate), DafsStatus::kExist);
  EXPECT_EQ(Get("user.a"), "1");
  EXPECT_EQ(Set("user.a", "3", XattrMode::kReplace), DafsStatus::kOk);
  EXPECT_EQ(Set("user.a", "4"), DafsStatus::kOk);
  EXPECT_EQ(Behind("user.a"), "4");
  EXPECT_EQ(Set("no.space", "x"), DafsStatus::kOk);  // 4.1.5: a name needs no namespace
  EXPECT_EQ(Behind("user.dafs.no.space"), "x");
}

TEST_P(FilesXattrsTest, ListAndRemove) {
  std::vector<std::string> expected;
  for (int i = 0; i < 40; ++i) {
    expected.push_back("user.some-longer-name-" + std::to_string(i));
    ASSERT_EQ(setxattr(Local("file").c_str(), expected.back().c_str(), "v", 1, 0), 0);
  }
  absl::StatusOr<std::vector<std::string>> names =
      Await(files_->xattrs().ListXattrs(root_user_, file_));
  ASSERT_STATUS_OK(names);
  EXPECT_THAT(*names, testing::UnorderedElementsAreArray(expected));
  EXPECT_STATUS_OK(Await(files_->xattrs().RemoveXattr(root_user_, file_, expected[7])));
  absl::Status again = Await(files_->xattrs().RemoveXattr(root_user_, file_, expected[7]));
  EXPECT_EQ(wire::DafsFromStatus(again), DafsStatus::kNoEnt);
  names = Await(files_->xattrs().ListXattrs(root_user_, file_));
  ASSERT_STATUS_OK(names);
  EXPECT_EQ(names->size(), 39u);
}

TEST_P(FilesXattrsTest, UsersSeeOnlyPermittedAttributes) {
  ASSERT_EQ(Set("trusted.secret", "x"), DafsStatus::kOk);
  ASSERT_EQ(Set("user.open", "x"), DafsStatus::kOk);
  absl::StatusOr<std::vector<std::string>> names = Await(files_->xattrs().ListXattrs(user_, file_));
  ASSERT_STATUS_OK(names);
  EXPECT_THAT(*names, UnorderedElementsAre("user.open"));
  absl::Status status =
      Await(files_->xattrs().SetXattr(user_, file_, "user.open", "y", XattrMode::kAny));
  EXPECT_EQ(wire::DafsFromStatus(status), DafsStatus::kAcces);
}

Task<void> SetFrom(Files& files, const Identity& user, const wire::FileHandle& file,
                   const std::string& value, bool* done) {
  Task<absl::Status> task =
      files.xattrs().SetXattr(user, file, "user.value", value, XattrMode::kAny);
  absl::Status status = co_await task;
  EXPECT_STATUS_OK(status);
  *done = true;
}

// A reader never sees a partly changed value. One client alternates between two values that differ
// in each byte, while another reads.
TEST_P(FilesXattrsTest, ReaderNeverSeesMixedValues) {
  const std::string one(3000, '1'), two(2500, '2');
  ASSERT_EQ(Set("user.value", one), DafsStatus::kOk);
  for (int i = 0; i < 50; ++i) {
    bool written = false;
    Start(SetFrom(*files_, root_user_, file_, i % 2 ? one : two, &written));
    do {
      const std::string seen = Get("user.value");
      EXPECT_TRUE(seen == one || seen == two) << seen.size();
    } while (!written);
  }
}

TEST_P(FilesXattrsTest, AclsAreSetAndReadBack) {
  absl::StatusOr<std::vector<wire::Ace>> acl = Await(files_->acls().GetAcl(root_user_, file_));
  ASSERT_STATUS_OK(acl);
  ASSERT_EQ(acl->size(), 3u);
  // With this many users the ACL does not fit into a small message.
  wire::Ace ace = acl->back();
  for (uint32_t i = 0; i < 60; ++i) {
    ace.who = std::to_string(1000 + i);
    acl->insert(acl->begin() + 1 + i, ace);
  }
  EXPECT_STATUS_OK(Await(files_->acls().SetAcl(root_user_, file_, *acl)));
  absl::StatusOr<std::vector<wire::Ace>> found = Await(files_->acls().GetAcl(root_user_, file_));
  ASSERT_STATUS_OK(found);
  EXPECT_TRUE(*found == *acl);
  EXPECT_EQ(Behind("system.posix_acl_access").size(), 4 + 8 * 64u);
  acl->back().who = "an unknown name";
  absl::Status refused = Await(files_->acls().SetAcl(root_user_, file_, *acl));
  EXPECT_EQ(wire::DafsFromStatus(refused), DafsStatus::kInval);
  acl->back().who = "EVERYONE@";
  acl->back().access_mask |= wire::kAceDelete;
  refused = Await(files_->acls().SetAcl(root_user_, file_, *acl));
  EXPECT_EQ(wire::DafsFromStatus(refused), DafsStatus::kInval);  // DAFS-6.5.35-07
}

INSTANTIATE_TEST_SUITE_P(Ways, FilesXattrsTest,
                         testing::Values(Way{wire::ByteOrder::kLittle, false, 16384},
                                         Way{wire::ByteOrder::kBig, false, 16384},
                                         Way{wire::ByteOrder::kBig, true, 1024},
                                         Way{wire::ByteOrder::kLittle, true, 1024}),
                         [](const auto& info) { return info.param.Name(); });

}  // namespace
}  // namespace dafs::client
