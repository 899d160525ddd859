// Each procedure announces a change before it changes anything. Spec: WIRE 9.6.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/xattr.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <sstream>

#include "server/store/access/announced_change.h"
#include "server/store/access/promise_ends.h"
#include "server/store/holdings/promises/promises.h"
#include "tests/server/store/promises_fixture.h"

namespace dafs::server {
namespace {

using testing::ElementsAreArray;
using testing::IsEmpty;
using testing::UnorderedElementsAreArray;

class AnnouncementsTest : public PromisesTest {
 protected:
  void SetUp() override {
    PromisesTest::SetUp();
    if (!IsSkipped()) MakeFiles();
  }

  // The files that the procedures change; afresh for each.
  void MakeFiles() {
    Store::RestoreServerIdentity();
    std::filesystem::remove_all(Path("a"));
    mkdir(Path("a").c_str(), 0777);
    mkdir(Path("a/d").c_str(), 0777);
    mkdir(Path("a/e").c_str(), 0777);
    mkdir(Path("a/d/filled").c_str(), 0777);
    mkdir(Path("a/d/empty").c_str(), 0777);
    mkdir(Path("a/closed").c_str(), 0755);
    WriteFile(Path("a/d/f"), "content", 0666);
    WriteFile(Path("a/e/g"), "content", 0666);
    WriteFile(Path("a/d/filled/x"), "content", 0666);
    WriteFile(Path("a/closed/h"), "content", 0644);
    setxattr(Path("a/d/f").c_str(), "user.x", "value", 5, 0);
    Serve();
    for (const char* path :
         {"", "d", "e", "closed", "d/f", "e/g", "d/filled", "d/filled/x", "d/empty", "closed/h"}) {
      handles_[path] = Find(path);
    }
  }
  wire::FileHandle Find(const std::string& path) {
    wire::Pathname names = {"a"};
    for (const auto& part : std::filesystem::path(path)) names.push_back(part.string());
    if (path.empty()) names.resize(1);
    return Handle(names);
  }
  const wire::FileHandle& At(const std::string& path) { return handles_.at(path); }

  // Promises both clients all there is.
  void PromiseAll() {
    for (const auto& [path, handle] : handles_) {
      for (const Promisee to : {root_.promisee, other_.promisee}) {
        store_->promises().Give(KeyOf(handle), to, kPromisedNames | kPromisedAttributes);
      }
    }
  }

  // Executes `procedure` as root_ or `as`, as a session does. Records what it announces.
  using Procedure = std::function<DafsStatus(const Caller&)>;
  DafsStatus Execute(const Procedure& procedure) { return Execute(root_, procedure); }
  DafsStatus Execute(Caller caller, const Procedure& procedure) {
    announced_.clear();
    Promises::Changing changing(store_->promises(), caller.promisee);
    caller.changing = &changing;
    TakeBits();
    const std::map<std::string, std::string> before = Snapshot();
    DafsStatus status = procedure(caller);
    if (status == DafsStatus::kDelay) {
      EXPECT_EQ(Snapshot(), before) << "changed before the clients were called";
      for (const Promises::Call& call : changing.TakeCalls()) {
        EXPECT_EQ(call.holder, other_.promisee) << "the requester itself is called";
        announced_.push_back(Describe(call));
        // While the change is announced, nothing is promised about it.
        EXPECT_EQ(store_->promises().Give(call.key, other_.promisee, call.what), 0);
        EXPECT_EQ(store_->promises().Give(call.key, root_.promisee, call.what), 0);
        store_->promises().Dropped(call);
      }
      status = procedure(caller);
      EXPECT_THAT(changing.TakeCalls(), IsEmpty());
    }
    has_names_ = changing.Keep();
    return status;
  }
  // "d names f", "d/f attributes".
  std::string Describe(const Promises::Call& call) {
    const auto found = std::find_if(handles_.begin(), handles_.end(), [&](const auto& each) {
      return KeyOf(each.second) == call.key;
    });
    std::string text = found != handles_.end() ? found->first : "?";
    if ((call.what & kPromisedNames) != 0) text += " names " + call.name;
    if ((call.what & kPromisedAttributes) != 0) text += " attributes";
    return text;
  }
  // Every path below a with its size, mode, times, links, and extended attributes.
  std::map<std::string, std::string> Snapshot() {
    Store::RestoreServerIdentity();
    std::map<std::string, std::string> all;
    for (const auto& each : std::filesystem::recursive_directory_iterator(Path("a"))) {
      const struct stat st = Stat(each.path());
      std::ostringstream text;
      text << st.st_ino << ' ' << st.st_mode << ' ' << st.st_size << ' ' << st.st_nlink << ' '
           << st.st_uid << ' ' << st.st_mtim.tv_sec << '.' << st.st_mtim.tv_nsec << ' '
           << st.st_ctim.tv_sec << '.' << st.st_ctim.tv_nsec;
      all[each.path()] = text.str();
    }
    return all;
  }

  // Procedures in the order of the tables below.
  DafsStatus Link(const Caller& caller, const std::string& file, const std::string& directory,
                  const std::string& name) {
    wire::LinkArgs args;
    args.source_object = At(file);
    args.destination_object = At(directory);
    args.newname = name;
    wire::LinkRes res;
    return store_->names().Link(caller, args, &res);
  }
  DafsStatus MakeFifo(const Caller& caller, const std::string& directory, const std::string& name) {
    wire::MakeNodeArgs args;
    args.filehandle = At(directory);
    args.component = name;
    args.obj_type = wire::ObjectType::kFifo;
    wire::MakeNodeRes res;
    return store_->names().MakeNode(caller, args, &res);
  }
  DafsStatus Rename2(const Caller& caller, const std::string& from, const std::string& oldname,
                     const std::string& to, const std::string& newname, uint32_t flags) {
    wire::Rename2Args args{At(from), At(to), oldname, newname, flags};
    wire::Rename2Res res;
    return store_->names().Rename2(caller, args, &res);
  }
  DafsStatus Open(const Caller& caller, const wire::OpenArgs& args) {
    wire::OpenRes res;
    return store_->opens().Open(caller, args, &res);
  }
  DafsStatus Chmod(const Caller& caller, const std::string& file) {
    wire::FileAttributes attributes;
    attributes.set(wire::kFattrMode);
    attributes.mode = 0640;
    uint64_t set = 0;
    return store_->attributes().Setattr(caller, At(file), {}, attributes, &set);
  }
  DafsStatus OpenHandle(const Caller& caller, const std::string& file, uint32_t access) {
    wire::OpenHandleArgs args;
    args.filehandle = At(file);
    args.owner = "owner";
    args.share_access = access;
    wire::OpenHandleRes res;
    return store_->opens().OpenHandle(caller, args, &res);
  }
  DafsStatus Append(const Caller& caller, const Opened& opened) {
    char data[] = "more";
    const iovec v = {data, 4};
    AppendResult res;
    return store_->data().Append(caller, opened.filehandle, opened.state_id, {&v, 1},
                                 wire::StableHow::kDataSync, &res);
  }
  DafsStatus Allocate(const Caller& caller, const Opened& opened) {
    wire::AllocateArgs args;
    args.filehandle = opened.filehandle;
    args.state_id = opened.state_id;
    args.length = 100000;
    return store_->data().Allocate(caller, args);
  }
  DafsStatus Copy(const Caller& caller, const std::string& from, const Opened& opened) {
    wire::CopyRangeArgs args;
    args.source_filehandle = At(from);
    args.filehandle = opened.filehandle;
    args.state_id = opened.state_id;
    args.length = 3;
    wire::CopyRangeRes res;
    return store_->data().CopyRange(caller, args, &res);
  }
  Opened Unopened(const std::string& file) { return {At(file), {}}; }
  wire::FileHandle AttributesOf(const Caller& caller, const std::string& file) {
    wire::FileHandle directory;
    EXPECT_OK(store_->names().Openattr(caller, At(file), &directory));
    return directory;
  }
  wire::OpenArgs Truncating(uint32_t access) {
    wire::OpenArgs args = CreateArgs(At("d"), "f");
    args.share_access = access;
    args.createattrs.set(wire::kFattrObjectSize);
    args.createattrs.object_size = 0;
    return args;
  }

  std::map<std::string, wire::FileHandle> handles_;
  std::vector<std::string> announced_;
  bool has_names_ = false;
};

struct Row {
  const char* name;
  std::function<DafsStatus(const Caller&)> procedure;
  std::vector<std::string> announced;
};

TEST_F(AnnouncementsTest, EachProcedureAnnouncesExactlyWhatItChanges) {
  using wire::ObjectType;
  const std::vector<Row> rows = {
      {"mkdir",
       [&](auto& c) { return Create(c, At("d"), "n", ObjectType::kDir); },
       {"d names n attributes"}},
      {"symlink",
       [&](auto& c) { return Create(c, At("d"), "n", ObjectType::kLnk); },
       {"d names n attributes"}},
      {"fifo", [&](auto& c) { return MakeFifo(c, "d", "n"); }, {"d names n attributes"}},
      {"link",
       [&](auto& c) { return Link(c, "d/f", "e", "n"); },
       {"e names n attributes", "d/f attributes"}},
      {"remove",
       [&](auto& c) { return Remove(c, At("d"), "f"); },
       {"d names f attributes", "d/f attributes"}},
      {"rmdir",
       [&](auto& c) { return Remove(c, At("d"), "empty"); },
       {"d names empty attributes", "d/empty attributes"}},
      {"rename",
       [&](auto& c) { return Rename(c, At("d"), "f", At("e"), "n"); },
       {"d names f attributes", "e names n attributes", "d/f attributes"}},
      {"rename over",
       [&](auto& c) { return Rename(c, At("d"), "f", At("e"), "g"); },
       {"d names f attributes", "e names g attributes", "d/f attributes", "e/g attributes"}},
      {"rename in place",
       [&](auto& c) { return Rename(c, At("d"), "f", At("d"), "n"); },
       {"d names f attributes", "d names n attributes", "d/f attributes"}},
      {"exchange",
       [&](auto& c) { return Rename2(c, "d", "f", "e", "g", wire::kRenameExchange); },
       {"d names f attributes", "e names g attributes", "d/f attributes", "e/g attributes"}},
      {"create",
       [&](auto& c) { return Open(c, CreateArgs(At("d"), "n")); },
       {"d names n attributes"}},
      {"create guarded",
       [&](auto& c) {
         wire::OpenArgs args = CreateArgs(At("d"), "n");
         args.createmode = wire::CreateMode::kGuarded;
         return Open(c, args);
       },
       {"d names n attributes"}},
      {"create exclusive",
       [&](auto& c) {
         wire::OpenArgs args = OpenArgs(At("d"), "n");
         args.open_type = wire::OpenType::kCreate;
         args.createmode = wire::CreateMode::kExclusive;
         return Open(c, args);
       },
       {"d names n attributes"}},
      {"open for writing",
       [&](auto& c) { return Open(c, OpenArgs(At("d"), "f")); },
       {"d/f attributes"}},
      {"open for writing by handle",
       [&](auto& c) { return OpenHandle(c, "d/f", wire::kShareWrite); },
       {"d/f attributes"}},
      {"create what exists",
       [&](auto& c) { return Open(c, CreateArgs(At("d"), "f")); },
       {"d/f attributes"}},
      {"truncate by open for writing",
       [&](auto& c) { return Open(c, Truncating(wire::kShareBoth)); },
       {"d/f attributes"}},
      {"truncate by open for reading",
       [&](auto& c) { return Open(c, Truncating(wire::kShareRead)); },
       {"d/f attributes"}},
      {"setattr", [&](auto& c) { return Chmod(c, "d/f"); }, {"d/f attributes"}},
      {"setattr of a directory", [&](auto& c) { return Chmod(c, "d"); }, {"d attributes"}},
      {"write without an open",
       [&](auto& c) { return Write(c, Unopened("d/f"), 0, "new"); },
       {"d/f attributes"}},
      {"append without an open",
       [&](auto& c) { return Append(c, Unopened("d/f")); },
       {"d/f attributes"}},
      {"allocate without an open",
       [&](auto& c) { return Allocate(c, Unopened("d/f")); },
       {"d/f attributes"}},
      {"copy without an open",
       [&](auto& c) { return Copy(c, "e/g", Unopened("d/f")); },
       {"d/f attributes"}},
      {"remove a named attribute",
       [&](auto& c) { return Remove(c, AttributesOf(c, "d/f"), "user.x"); },
       {"d/f attributes"}},
      {"write a named attribute without an open",
       [&](auto& c) {
         wire::FileHandle attribute;
         EXPECT_OK(Lookup(c, AttributesOf(c, "d/f"), "user.x", &attribute));
         return Write(c, {attribute, {}}, 0, "new");
       },
       {"d/f attributes"}},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    MakeFiles();
    PromiseAll();
    EXPECT_OK(Execute(row.procedure));
    EXPECT_THAT(announced_, UnorderedElementsAreArray(row.announced));
    const bool has_names = row.announced[0].find("names") != std::string::npos;
    EXPECT_EQ(has_names_, has_names) << "whether the answer promises the names";
    // Nothing is left to announce: the requester is not called, nor is a client a second time.
    EXPECT_EQ(store_->promises().GetCounts().calls, row.announced.size());
  }
}

TEST_F(AnnouncementsTest, ClosingANamedAttributeAnnouncesItsNewValue) {
  const wire::FileHandle directory = AttributesOf(root_, "d/f");
  const Opened opened = MustOpen(root_, CreateArgs(directory, "user.new"));
  ASSERT_OK(Write(root_, opened, 0, "value"));
  PromiseAll();
  EXPECT_OK(Execute([&](const Caller& caller) { return Close(caller, opened); }));
  EXPECT_THAT(announced_, ElementsAreArray({"d/f attributes"}));
  EXPECT_EQ(getxattr(Path("a/d/f").c_str(), "user.new", nullptr, 0), 5);
  const Opened unchanged = MustOpen(root_, OpenArgs(directory, "user.new", wire::kShareRead));
  PromiseAll();
  EXPECT_OK(Execute([&](const Caller& caller) { return Close(caller, unchanged); }));
  EXPECT_THAT(announced_, IsEmpty());
}

TEST_F(AnnouncementsTest, ClientThatIsGoneIsNotCalled) {
  PromiseAll();
  store_->promises().Forget(other_.client_id);
  EXPECT_OK(Execute([&](const Caller& caller) { return Remove(caller, At("d"), "f"); }));
  EXPECT_THAT(announced_, IsEmpty());
}

struct Refused {
  const char* name;
  DafsStatus status;
  std::function<DafsStatus(const Caller&)> procedure;
};

TEST_F(AnnouncementsTest, RefusedChangesCallNoClient) {
  using wire::ObjectType;
  const std::vector<Refused> rows = {
      {"mkdir EXIST", DafsStatus::kExist,
       [&](auto& c) { return Create(c, At("d"), "f", ObjectType::kDir); }},
      {"fifo EXIST", DafsStatus::kExist, [&](auto& c) { return MakeFifo(c, "d", "f"); }},
      {"link EXIST", DafsStatus::kExist, [&](auto& c) { return Link(c, "d/f", "e", "g"); }},
      {"create guarded EXIST", DafsStatus::kExist,
       [&](auto& c) {
         wire::OpenArgs args = CreateArgs(At("d"), "f");
         args.createmode = wire::CreateMode::kGuarded;
         return Open(c, args);
       }},
      {"rename EXIST", DafsStatus::kExist,
       [&](auto& c) { return Rename2(c, "d", "f", "e", "g", wire::kRenameNoReplace); }},
      {"rename over a filled directory", DafsStatus::kExist,
       [&](auto& c) { return Rename(c, At("d"), "empty", At("d"), "filled"); }},
      {"exchange NOENT", DafsStatus::kNoEnt,
       [&](auto& c) { return Rename2(c, "d", "f", "e", "none", wire::kRenameExchange); }},
      {"rmdir NOTEMPTY", DafsStatus::kNotEmpty,
       [&](auto& c) { return Remove(c, At("d"), "filled"); }},
      {"remove NOENT", DafsStatus::kNoEnt, [&](auto& c) { return Remove(c, At("d"), "none"); }},
      {"create ACCES", DafsStatus::kAcces,
       [&](auto& c) { return Open(c, CreateArgs(At("closed"), "n")); }},
      {"mkdir ACCES", DafsStatus::kAcces,
       [&](auto& c) { return Create(c, At("closed"), "n", ObjectType::kDir); }},
      {"remove ACCES", DafsStatus::kAcces, [&](auto& c) { return Remove(c, At("closed"), "h"); }},
      {"rename ACCES", DafsStatus::kAcces,
       [&](auto& c) { return Rename(c, At("closed"), "h", At("d"), "n"); }},
      {"open for writing ACCES", DafsStatus::kAcces,
       [&](auto& c) { return OpenHandle(c, "closed/h", wire::kShareWrite); }},
      {"write ACCES", DafsStatus::kAcces,
       [&](auto& c) { return Write(c, Unopened("closed/h"), 0, "new"); }},
  };
  for (const Refused& row : rows) {
    SCOPED_TRACE(row.name);
    MakeFiles();
    PromiseAll();
    const std::map<std::string, std::string> before = Snapshot();
    EXPECT_EQ(wire::Name(Execute(user_, row.procedure)), wire::Name(row.status));
    EXPECT_EQ(Snapshot(), before);
    EXPECT_EQ(store_->promises().GetCounts().calls, 0u);
    // The promises are as good as before.
    EXPECT_EQ(BitsOfGetattr(other_, At("d")), kAttributes);
    EXPECT_EQ(BitsOfLookup(other_, At("d"), {"f"}), kNames);
  }
}

TEST_F(AnnouncementsTest, RenameToTheSameObjectChangesNothing) {
  ASSERT_OK(Execute([&](const Caller& caller) { return Link(caller, "d/f", "d", "n"); }));
  PromiseAll();
  EXPECT_OK(
      Execute([&](const Caller& caller) { return Rename(caller, At("d"), "f", At("d"), "n"); }));
  EXPECT_THAT(announced_, IsEmpty());
}

TEST_F(AnnouncementsTest, WritesThroughAnOpenForWritingCallNoClient) {
  const Opened opened = MustOpen(root_, OpenArgs(At("d"), "f"));
  PromiseAll();
  EXPECT_OK(Execute([&](const Caller& caller) { return Write(caller, opened, 0, "new"); }));
  EXPECT_THAT(announced_, IsEmpty());
  EXPECT_OK(Execute([&](const Caller& caller) { return Append(caller, opened); }));
  EXPECT_THAT(announced_, IsEmpty());
  EXPECT_OK(Execute([&](const Caller& caller) { return Allocate(caller, opened); }));
  EXPECT_THAT(announced_, IsEmpty());
  EXPECT_OK(Execute([&](const Caller& caller) { return Copy(caller, "e/g", opened); }));
  EXPECT_THAT(announced_, IsEmpty());
  EXPECT_OK(Execute([&](const Caller& caller) { return Chmod(caller, "d/f"); }));
  EXPECT_THAT(announced_, IsEmpty());
  EXPECT_OK(Close(root_, opened));
}

// Each way to open and to close for writing, and whether another client gets the attributes.
TEST_F(AnnouncementsTest, AttributesArePromisedUnlessOthersHaveTheFileOpenForWriting) {
  const auto promised = [&] { return BitsOfGetattr(other_, At("d/f")) == kAttributes; };
  EXPECT_TRUE(promised());
  Opened opened = MustOpen(root_, OpenArgs(At("d"), "f"));
  EXPECT_FALSE(promised());
  EXPECT_EQ(BitsOfGetattr(root_, At("d/f")), kAttributes) << "the writer itself";
  wire::OpenOwnerArgs owner;
  owner.filehandle = opened.filehandle;
  owner.state_id = opened.state_id;
  owner.owner = "second";
  wire::OpenOwnerRes second;
  ASSERT_OK(store_->locks().OpenOwner(root_, owner, &second));
  MustOpen(root_, OpenArgs(At("d"), "f"));  // merged into the first
  ASSERT_OK(Close(root_, opened));
  EXPECT_FALSE(promised()) << "the second owner has it open";
  ASSERT_OK(Close(root_, {opened.filehandle, second.state_id}));
  EXPECT_TRUE(promised());

  opened = MustOpen(root_, OpenArgs(At("d"), "f", wire::kShareRead));
  EXPECT_TRUE(promised());
  opened = MustOpen(root_, OpenArgs(At("d"), "f", wire::kShareWrite));
  EXPECT_FALSE(promised());
  wire::OpenDowngradeArgs downgrade;
  downgrade.filehandle = opened.filehandle;
  downgrade.state_id = opened.state_id;
  downgrade.share_access = wire::kShareRead;
  ASSERT_OK(store_->opens().OpenDowngrade(root_, downgrade));
  EXPECT_TRUE(promised());
  ASSERT_OK(Close(root_, opened));
  EXPECT_TRUE(promised());

  MustOpen(root_, OpenArgs(At("d"), "f"));
  EXPECT_FALSE(promised());
  store_->releases().ReleaseClient(root_.client_id);
  EXPECT_TRUE(promised());

  opened = MustOpen(root_, CreateArgs(At("d"), "n"));
  EXPECT_EQ(BitsOfGetattr(other_, opened.filehandle), 0);
  ASSERT_OK(Close(root_, opened));
  EXPECT_EQ(BitsOfGetattr(other_, opened.filehandle), kAttributes);

  // Opens that fail count for nothing.
  wire::OpenArgs denying = OpenArgs(At("d"), "f", wire::kShareRead);
  denying.share_deny = wire::kShareWrite;
  opened = MustOpen(root_, denying);
  EXPECT_DAFS(kDenied, Open(other_, OpenArgs(At("d"), "f")));
  ASSERT_OK(Close(root_, opened));
  EXPECT_EQ(BitsOfGetattr(root_, At("d/f")), kAttributes);
  Store::RestoreServerIdentity();
  chmod(Path("a/d/f").c_str(), 0444);
  wire::OpenRes res;
  wire::OpenArgs args = Truncating(wire::kShareRead);
  EXPECT_DAFS(kAcces, store_->opens().Open(user_, args, &res));
  EXPECT_TRUE(promised());
}

TEST_F(AnnouncementsTest, NewFileIsNotPromisedUntilItsOpenIsOver) {
  Promises::Changing changing(store_->promises(), root_.promisee);
  Caller caller = root_;
  caller.changing = &changing;
  const wire::OpenArgs args = CreateArgs(At("d"), "n");
  wire::OpenRes res;
  ASSERT_OK(store_->opens().Open(caller, args, &res));
  EXPECT_EQ(store_->promises().Give(KeyOf(res.filehandle), other_.promisee, kPromisedAttributes),
            0);
  changing.Keep();
  EXPECT_EQ(BitsOfGetattr(other_, res.filehandle), 0) << "open for writing";
}

TEST_F(AnnouncementsTest, AnswerOfAModificationSaysWhetherOnlyClientsChangeTheExport) {
  const auto create = [&](const Caller& caller) {
    return Create(caller, A(), "new", wire::ObjectType::kDir);
  };
  EXPECT_OK(Execute(create));
  EXPECT_TRUE(has_names_);
  EXPECT_EQ(TakeBits() & kOnlyClients, 0);
  exports_[0].only_clients_change = true;
  MakeFiles();
  EXPECT_OK(Execute([&](const Caller& caller) {
    return Create(caller, At("d"), "new", wire::ObjectType::kDir);
  }));
  EXPECT_EQ(TakeBits(), kOnlyClients);
}

TEST_F(AnnouncementsTest, PathThatLeadsElsewhereEndsAllPromises) {
  std::vector<Promises::Call> calls;
  store_->promise_ends().SetSend([&](std::vector<Promises::Call> all) { calls = std::move(all); });
  store_->directories().FollowPaths();
  EXPECT_THAT(calls, IsEmpty());
  Store::RestoreServerIdentity();
  ASSERT_EQ(rename(Path("a").c_str(), Path("old").c_str()), 0);
  ASSERT_EQ(mkdir(Path("a").c_str(), 0777), 0);
  store_->directories().FollowPaths();
  ASSERT_EQ(calls.size(), 2u);
  std::set<Promisee> holders;
  for (const Promises::Call& call : calls) {
    EXPECT_EQ(call.what, kPromisedAll);
    holders.insert(call.holder);
    store_->promises().Dropped(call);
  }
  EXPECT_EQ(holders, (std::set<Promisee>{root_.promisee, other_.promisee}));
}

}  // namespace
}  // namespace dafs::server
