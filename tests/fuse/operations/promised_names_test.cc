// How long the kernel may keep what a server that gives promises has answered.
#include <fcntl.h>

#include <atomic>
#include <cerrno>
#include <string>

#include "client/state/promises.h"
#include "fuse/cache/promise_rules.h"
#include "tests/fuse/scripted_worker_fixture.h"
#include "wire/protocol/header.h"

namespace dafs::fuse {
namespace {

using client::testing::Request;
using client::testing::ScriptedAttributes;
using client::testing::ScriptedConnection;
using wire::Proc;

constexpr uint16_t kBoth = wire::kSpcondNames | wire::kSpcondAttributes;
const uint64_t kPromisedSeconds =
    static_cast<uint64_t>(absl::ToInt64Seconds(PromiseRules::kPromisedFor));

class PromisedNamesTest : public ScriptedWorkerTest {
 protected:
  void Start(const Options& options = Options()) {
    server_.spec_cond = [this](const Request& request) -> uint16_t {
      if (request.header.procedure == Proc::kGetattrInline) {
        return static_cast<uint16_t>(spec_cond_ & ~wire::kSpcondNames);
      }
      return static_cast<uint16_t>(spec_cond_ & ~wire::kSpcondAttributes);
    };
    server_.script = [this](ScriptedConnection& c, const Request& request) {
      if (request.header.procedure == Proc::kLookup) ++lookups_;
      if (request.header.procedure == Proc::kLookup && absent_) {
        c.Refuse(request, wire::DafsStatus::kNoEnt);
        return true;
      }
      if (request.header.procedure != Proc::kGetattrInline) return false;
      ++requests_;
      wire::GetattrInlineRes res;
      res.obj_attributes =
          ScriptedAttributes(request.Decode<wire::GetattrInlineArgs>().attr_request_bitmap);
      res.obj_attributes.object_type = type_;
      c.Answer(request, res);
      return true;
    };
    StartWorker(options);
    state_->caches.rules.Use(client_->promises());
    client_->promises().Ask();
    EXPECT_TRUE(client_->promises().Begin(absl::Seconds(10)));
  }
  fuse_entry_out Absent(const std::string& name) {
    absent_ = true;
    FakeKernel::Answer answer = kernel_.Call(FUSE_LOOKUP, kRootNode, Name(name));
    absent_ = false;
    return answer.error == ENOENT ? fuse_entry_out() : answer.As<fuse_entry_out>();
  }
  bool KernelHas(const std::string& name) {
    return state_->caches.directory_names.Find(kRootNode, name, Loop::Now()).has_value();
  }
  wire::FileHandle HandleOf(uint64_t node) { return state_->caches.inodes.Find(node)->handle; }

  std::atomic<uint16_t> spec_cond_{kBoth | wire::kSpcondOnlyClients};
  std::atomic<bool> absent_{false};
  std::atomic<int> requests_{0};
  std::atomic<int> lookups_{0};
  std::atomic<wire::ObjectType> type_{wire::ObjectType::kReg};
};

TEST_F(PromisedNamesTest, NamesAndAttributesAreKeptByTheirOwnPromises) {
  Start();
  fuse_entry_out entry = Lookup(kRootNode, "both");
  EXPECT_EQ(entry.entry_valid, kPromisedSeconds);
  EXPECT_EQ(entry.attr_valid, kPromisedSeconds);
  EXPECT_TRUE(KernelHas("both"));
  spec_cond_ = wire::kSpcondNames | wire::kSpcondOnlyClients;  // open for writing elsewhere
  entry = Lookup(kRootNode, "name");
  EXPECT_EQ(entry.entry_valid, kPromisedSeconds);
  EXPECT_EQ(entry.attr_valid, 0u);
  EXPECT_EQ(entry.attr_valid_nsec, 0u);
  spec_cond_ = wire::kSpcondAttributes | wire::kSpcondOnlyClients;
  entry = Lookup(kRootNode, "attributes");
  EXPECT_EQ(entry.entry_valid, 0u);
  EXPECT_EQ(entry.attr_valid, kPromisedSeconds);
  EXPECT_FALSE(KernelHas("attributes"));
  spec_cond_ = 0;
  entry = Lookup(kRootNode, "none");
  EXPECT_EQ(entry.entry_valid + entry.entry_valid_nsec + entry.attr_valid + entry.attr_valid_nsec,
            0u);
}

TEST_F(PromisedNamesTest, OtherProgramsOfTheServerLimitTheTimes) {
  Start();
  spec_cond_ = kBoth;
  fuse_entry_out entry = Lookup(kRootNode, "file");
  EXPECT_EQ(entry.entry_valid, 3u);
  EXPECT_EQ(entry.attr_valid, 3u);
  EXPECT_EQ(Absent("none").entry_valid, 0u);
}

TEST_F(PromisedNamesTest, NothingIsKeptWhileThePromisesAreVoid) {
  Start();
  client_->promises().End();
  fuse_entry_out entry = Lookup(kRootNode, "file");
  EXPECT_EQ(entry.entry_valid + entry.attr_valid, 0u);
  EXPECT_EQ(Absent("none").entry_valid, 0u);
}

TEST_F(PromisedNamesTest, AServerThatRefusesIsCachedByTime) {
  Start();
  client_->promises().Refuse();
  fuse_entry_out entry = Lookup(kRootNode, "file");
  EXPECT_EQ(entry.entry_valid, 3u);
  EXPECT_EQ(entry.attr_valid, 3u);
  EXPECT_EQ(Absent("none").entry_valid, 0u);
  EXPECT_TRUE(KernelHas("file"));
}

TEST_F(PromisedNamesTest, AbsentNamesAreKeptUnlessNoNamesAre) {
  Start();
  fuse_entry_out absent = Absent("none");
  EXPECT_EQ(absent.nodeid, 0u);
  EXPECT_EQ(absent.entry_valid, kPromisedSeconds);
  EXPECT_TRUE(KernelHas("none"));
  spec_cond_ = 0;
  EXPECT_EQ(Absent("not promised").entry_valid, 0u);
}

TEST_F(PromisedNamesTest, LookupcacheNoneKeepsNoName) {
  Options options;
  options.lookup_cache = LookupCache::kNone;
  Start(options);
  EXPECT_EQ(Lookup(kRootNode, "file").entry_valid, 0u);
  EXPECT_EQ(Absent("none").entry_valid, 0u);
}

TEST_F(PromisedNamesTest, NamesOfLinksAreKept) {
  type_ = wire::ObjectType::kLnk;
  Start();
  EXPECT_EQ(Lookup(kRootNode, "link").entry_valid, kPromisedSeconds);
  spec_cond_ = 0;
  EXPECT_EQ(Lookup(kRootNode, "link").entry_valid, 0u);
}

TEST_F(PromisedNamesTest, AnAnnouncedChangeEndsWhatIsKept) {
  Start();
  const uint64_t node = Lookup(kRootNode, "file").nodeid;
  requests_ = 0;
  fuse_getattr_in in = {};
  EXPECT_EQ(kernel_.Call(FUSE_GETATTR, node, Raw(in)).As<fuse_attr_out>().attr_valid,
            kPromisedSeconds);
  EXPECT_EQ(requests_, 1);
  client_->promises().Changed(HandleOf(node));
  spec_cond_ = 0;
  EXPECT_EQ(kernel_.Call(FUSE_GETATTR, node, Raw(in)).As<fuse_attr_out>().attr_valid, 0u);
}

TEST_F(PromisedNamesTest, AttributesOfAnOpenServeAsLongAsTheyArePromised) {
  Start();
  const uint64_t node = Lookup(kRootNode, "file").nodeid;
  fuse_open_in open = {.flags = O_RDONLY, .open_flags = 0};
  const auto stat = [&] {
    requests_ = 0;
    EXPECT_EQ(Getattr(node).error, 0);
    return requests_.load();
  };
  EXPECT_EQ(kernel_.Call(FUSE_OPEN, node, Raw(open)).error, 0);
  EXPECT_EQ(stat(), 0);
  EXPECT_EQ(kernel_.Call(FUSE_OPEN, node, Raw(open)).error, 0);
  client_->promises().Changed(HandleOf(node));
  EXPECT_EQ(stat(), 1);
}

TEST_F(PromisedNamesTest, ARenamedNameIsKeptOnlyIfItsDirectoryIsPromised) {
  Start();
  const auto rename = [&](const std::string& from, const std::string& to) {
    fuse_rename_in in = {.newdir = kRootNode};
    EXPECT_EQ(kernel_.Call(FUSE_RENAME, kRootNode, Raw(in) + Name(from) + Name(to)).error, 0);
  };
  Lookup(kRootNode, "a");
  rename("a", "b");
  EXPECT_TRUE(KernelHas("b"));
  EXPECT_EQ(kernel_.Receive(0).error, 0);
  spec_cond_ = wire::kSpcondAttributes | wire::kSpcondOnlyClients;
  const uint64_t unique = kernel_.Send(
      FUSE_RENAME, kRootNode, Raw(fuse_rename_in{.newdir = kRootNode}) + Name("b") + Name("c"));
  bool answered = false, dropped = false;
  while (!answered || !dropped) {
    FakeKernel::Answer answer = kernel_.Receive();
    ASSERT_TRUE(answer.unique != 0 || answer.error != 0);
    if (answer.unique == unique) answered = true;
    if (answer.unique == 0 && answer.error == FUSE_NOTIFY_INVAL_ENTRY) {
      EXPECT_EQ(answer.body.substr(sizeof(fuse_notify_inval_entry_out)), Name("c"));
      dropped = true;
    }
  }
}

class WholeDirectoryTest : public PromisedNamesTest {
 protected:
  void SetUp() override {
    Options options;
    options.default_permissions = true;
    Start(options);
    wire::FileHandle root = HandleOf(kRootNode);
    const client::Promise promise = {client_->promises().sequence(), true};
    state_->caches.whole_directories.EndListing(root,
                                                state_->caches.whole_directories.BeginListing(root),
                                                {"file"}, promise, Loop::Now() + absl::Minutes(1));
    absent_ = true;
  }
  // The lookups at the server that one of the kernel causes, of a name that does not exist.
  int Lookups(const std::string& name) {
    lookups_ = 0;
    FakeKernel::Answer answer = kernel_.Call(FUSE_LOOKUP, kRootNode, Name(name));
    EXPECT_TRUE(answer.error == ENOENT || answer.As<fuse_entry_out>().nodeid == 0) << name;
    return lookups_;
  }
};

TEST_F(WholeDirectoryTest, OtherNamesAreAbsentWithoutALookup) {
  FakeKernel::Answer answer = kernel_.Call(FUSE_LOOKUP, kRootNode, Name("none"));
  EXPECT_EQ(answer.As<fuse_entry_out>().nodeid, 0u);
  EXPECT_EQ(answer.As<fuse_entry_out>().entry_valid, kPromisedSeconds);
  EXPECT_TRUE(KernelHas("none"));
  EXPECT_EQ(lookups_, 0);
  EXPECT_EQ(Lookups("file"), 1);
  EXPECT_EQ(Lookups("."), 1);
  EXPECT_EQ(Lookups(std::string(256, 'n')), 1);
}

TEST_F(WholeDirectoryTest, AnAnnouncedChangeEndsWhatIsKnown) {
  EXPECT_EQ(Lookups("none"), 0);
  client_->promises().Changed(HandleOf(kRootNode));
  EXPECT_EQ(Lookups("none"), 1);
}

TEST_F(WholeDirectoryTest, NamesThatThisMountMakesAreLookedUp) {
  const std::string mkdir = Raw(fuse_mkdir_in{.mode = 0755, .umask = 0});
  EXPECT_EQ(kernel_.Call(FUSE_MKDIR, kRootNode, mkdir + Name("directory")).error, 0);
  EXPECT_EQ(kernel_.Call(FUSE_SYMLINK, kRootNode, Name("link") + Name("target")).error, 0);
  const std::string rename = Raw(fuse_rename_in{.newdir = kRootNode});
  EXPECT_EQ(kernel_.Call(FUSE_RENAME, kRootNode, rename + Name("link") + Name("moved")).error, 0);
  EXPECT_EQ(Lookups("directory"), 1);
  EXPECT_EQ(Lookups("moved"), 1);
  EXPECT_EQ(Lookups("link"), 0);
  EXPECT_EQ(kernel_.Call(FUSE_UNLINK, kRootNode, Name("moved")).error, 0);
  EXPECT_EQ(Lookups("moved"), 0);
}

TEST_F(PromisedNamesTest, ForgottenNodesLoseTheirNames) {
  Start();
  const uint64_t node = Lookup(kRootNode, "file").nodeid;
  EXPECT_TRUE(KernelHas("file"));
  kernel_.Send(FUSE_FORGET, node, Raw(fuse_forget_in{.nlookup = 1}));
  EXPECT_EQ(kernel_.Call(FUSE_ACCESS, kRootNode, Raw(fuse_access_in{})).error, 0);
  EXPECT_FALSE(KernelHas("file"));
}

}  // namespace
}  // namespace dafs::fuse
