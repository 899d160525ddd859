// The requests that the mount sends, and how it handles replies that dafsd does not send: several
// file systems, handles that expire, several handles for one file, any cookies.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "tests/client/fake_id_names.h"
#include "tests/fuse/scripted_worker_fixture.h"
#include "wire/codec/direct.h"

namespace dafs::fuse {
namespace {

using client::testing::Request;
using client::testing::ScriptedAttributes;
using client::testing::ScriptedConnection;
using wire::DafsStatus;
using wire::Proc;

wire::FileHandle Handle(const std::string& name, uint8_t fs = 1, uint8_t number = 0) {
  wire::FileHandle handle;
  handle.fshandle.bytes[0] = fs;
  std::memcpy(handle.fileid.bytes.data(), name.data(), name.size());
  handle.fileid.bytes.back() = number;
  return handle;
}

bool HasFlag(const Request& request, uint16_t flag) {
  return (request.header.chain_flags & flag) != 0;
}

template <class Args>
void AnswerHandle(ScriptedConnection& c, const Request& request, const wire::FileHandle& handle) {
  wire::ResOf<Args> res;
  if constexpr (Args::kProc == Proc::kLookup) {
    res.filehandle = handle;
    res.component_count = 1;
  } else {
    res.root_handle = handle;
  }
  c.current = handle;
  c.Answer(request, res);
}

struct ListedEntry {
  uint64_t cookie;
  std::string name;
  wire::FileAttributes attributes;
};

void AnswerListing(ScriptedConnection& c, const Request& request,
                   const wire::ReaddirDirectArgs& args, const std::vector<ListedEntry>& entries,
                   uint64_t cookieverf, bool eof) {
  std::vector<std::byte> content(4096);
  wire::DirentArrayBuilder builder(request.order, content);
  for (const ListedEntry& entry : entries) {
    EXPECT_TRUE(builder.Add(entry.cookie, entry.attributes, entry.name));
  }
  content.resize(builder.Finish());
  EXPECT_TRUE(c.RdmaWrite(args.readdir_data_buffers.at(0), content));
  wire::ReaddirDirectRes res;
  res.cookieverf = wire::OpaqueFromUint64<wire::Verifier>(cookieverf);
  res.eof = eof;
  c.Answer(request, res);
}

struct Listed {
  std::string name;
  uint64_t ino;
};

// Returns the entries in a reply to READDIR or READDIRPLUS. *offset becomes that of the last entry.
std::vector<Listed> Entries(const std::string& body, bool plus, uint64_t* offset) {
  std::vector<Listed> entries;
  for (size_t at = 0; at < body.size();) {
    if (plus) at += sizeof(fuse_entry_out);
    fuse_dirent dirent = {};
    std::memcpy(&dirent, body.data() + at, FUSE_NAME_OFFSET);
    entries.push_back({body.substr(at + FUSE_NAME_OFFSET, dirent.namelen), dirent.ino});
    *offset = dirent.off;
    at += FUSE_DIRENT_ALIGN(FUSE_NAME_OFFSET + dirent.namelen);
  }
  return entries;
}

// ---- Several file systems --------------------------------------------------------------------

class SeveralFileSystems : public ScriptedWorkerTest {
 protected:
  static constexpr uint64_t kFileId = 77;  // of all objects
  static constexpr uint8_t kOther = 2;

  static wire::FileAttributes AttributesOf(uint64_t bits, const wire::FileHandle& handle) {
    wire::FileAttributes attributes = ScriptedAttributes(bits);
    attributes.file_id = kFileId;
    attributes.filehandle = handle;
    return attributes;
  }

  // The last character of a name is the number of its file system.
  void SetUp() override {
    server_.script = [](ScriptedConnection& c, const Request& request) {
      switch (request.header.procedure) {
        case Proc::kLookup: {
          const std::string name = request.Decode<wire::LookupArgs>().path.at(0);
          AnswerHandle<wire::LookupArgs>(c, request,
                                         Handle(name, static_cast<uint8_t>(name.back() - '0')));
          return true;
        }
        case Proc::kGetattrInline: {
          auto args = request.Decode<wire::GetattrInlineArgs>();
          if (HasFlag(request, wire::kChfFh)) args.filehandle = c.current;
          wire::GetattrInlineRes res;
          res.obj_attributes = AttributesOf(args.attr_request_bitmap, args.filehandle);
          c.Answer(request, res);
          return true;
        }
        case Proc::kReaddirDirect: {
          const auto args = request.Decode<wire::ReaddirDirectArgs>();
          const wire::FileHandle mounted = Handle("f2", kOther);
          AnswerListing(c, request, args,
                        {{3, "f2", AttributesOf(args.attr_request_bitmap, mounted)}}, 1, true);
          return true;
        }
        default:
          return false;
      }
    };
    StartWorker();
  }
};

// Shows DAFS-4.1.4-06, DAFS-6.5.21-08: FILE_ID identifies an object within its file system. For
// programs there is one file system, and its files must have different numbers.
TEST_F(SeveralFileSystems, ObjectsHaveDifferentInodeNumbers) {
  const uint64_t root = Getattr(kRootNode).As<fuse_attr_out>().attr.ino;
  EXPECT_EQ(root, kFileId);
  // In the root's file system, the number is the server's.
  EXPECT_EQ(Lookup(kRootNode, "f1").attr.ino, kFileId);
  const fuse_entry_out second = Lookup(kRootNode, "f2");
  const fuse_entry_out third = Lookup(kRootNode, "f3");
  EXPECT_NE(second.attr.ino, kFileId);
  EXPECT_NE(third.attr.ino, kFileId);
  EXPECT_NE(second.attr.ino, third.attr.ino);
  // Each request returns the same number.
  EXPECT_EQ(Lookup(kRootNode, "g2").attr.ino, second.attr.ino);
  EXPECT_EQ(Getattr(second.nodeid).As<fuse_attr_out>().attr.ino, second.attr.ino);
  const FakeKernel::Answer statx = kernel_.Call(kStatx, second.nodeid, std::string(24, '\0'));
  EXPECT_EQ(statx.error, 0);
  EXPECT_EQ(statx.As<StatxOut>().stat.ino, second.attr.ino);
}

TEST_F(SeveralFileSystems, ListingsReturnTheInodeNumbersOfStat) {
  const fuse_entry_out found = Lookup(kRootNode, "f2");
  for (bool plus : {true, false}) {
    fuse_read_in in = {};
    in.fh = kernel_.Call(FUSE_OPENDIR, kRootNode, Raw(fuse_open_in{})).As<fuse_open_out>().fh;
    in.size = 4096;
    const FakeKernel::Answer listed =
        kernel_.Call(plus ? FUSE_READDIRPLUS : FUSE_READDIR, kRootNode, Raw(in));
    ASSERT_EQ(listed.error, 0);
    const std::vector<Listed> entries = Entries(listed.body, plus, &in.offset);
    ASSERT_EQ(entries.size(), 3u);
    EXPECT_EQ(entries[0].ino, kFileId);  // "."
    EXPECT_EQ(entries[2].name, "f2");
    // READDIR may return the server's number, if the chunk was not read with all attributes.
    EXPECT_TRUE(entries[2].ino == found.attr.ino || (!plus && entries[2].ino == kFileId));
  }
}

// ---- Handles ---------------------------------------------------------------------------------

class ExpiringHandles : public ScriptedWorkerTest {
 protected:
  void SetUp() override {
    server_.script = [this](ScriptedConnection& c, const Request& request) {
      const uint8_t now = instance_;
      const auto expired = [&](const wire::FileHandle& handle) {
        if (handle.fileid.bytes.back() == now) return false;
        c.Refuse(request, DafsStatus::kFhExpired);
        return true;
      };
      switch (request.header.procedure) {
        case Proc::kGetRootHandle:
          AnswerHandle<wire::GetRootHandleArgs>(c, request, Handle("/", 1, now));
          return true;
        case Proc::kLookup: {
          const auto args = request.Decode<wire::LookupArgs>();
          if (expired(args.directory)) return true;
          AnswerHandle<wire::LookupArgs>(c, request, Handle(args.path.at(0), 1, now));
          return true;
        }
        case Proc::kGetattrInline: {
          const auto args = request.Decode<wire::GetattrInlineArgs>();
          if (HasFlag(request, wire::kChfFh)) {
            if (c.chain_broken) return false;
          } else if (expired(args.filehandle)) {
            return true;
          }
          wire::GetattrInlineRes res;
          res.obj_attributes = ScriptedAttributes(args.attr_request_bitmap);
          res.obj_attributes.object_type = wire::ObjectType::kDir;
          c.Answer(request, res);
          return true;
        }
        case Proc::kReaddirDirect: {
          const auto args = request.Decode<wire::ReaddirDirectArgs>();
          if (!expired(args.filehandle)) AnswerListing(c, request, args, {}, 1, true);
          return true;
        }
        default:
          return false;
      }
    };
    StartWorker();
  }
  std::atomic<uint8_t> instance_{1};  // of the server; a handle of another instance has expired
};

// Shows DAFS-4.1.4-29: after ESTALE the kernel walks the path again, from the root,
// whose handle has expired too.
TEST_F(ExpiringHandles, AreFoundAgainFromTheRoot) {
  const uint64_t before = Lookup(kRootNode, "d").nodeid;
  instance_ = 2;
  EXPECT_EQ(Getattr(before).error, ESTALE);
  EXPECT_EQ(kernel_.Call(FUSE_OPENDIR, before, Raw(fuse_open_in{})).error, ESTALE);
  const uint64_t after = Lookup(kRootNode, "d").nodeid;
  EXPECT_NE(after, before);
  EXPECT_EQ(Getattr(after).error, 0);
  EXPECT_EQ(kernel_.Call(FUSE_OPENDIR, after, Raw(fuse_open_in{})).error, 0);
  EXPECT_EQ(Getattr(kRootNode).error, 0);
  instance_ = 3;
  EXPECT_EQ(Getattr(kRootNode).error, 0);
}

class AnotherHandleAtOpen : public ScriptedWorkerTest {
 protected:
  void SetUp() override {
    server_.open_handle = false;
    server_.script = [this](ScriptedConnection& c, const Request& request) {
      absl::MutexLock lock(&mutex_);
      switch (request.header.procedure) {
        case Proc::kLookup:
          AnswerHandle<wire::LookupArgs>(c, request, Handle("looked up"));
          return true;
        case Proc::kClose:
          closed_.push_back(request.Decode<wire::CloseArgs>().filehandle);
          return false;
        case Proc::kReadInline: {
          const auto args = request.Decode<wire::ReadInlineArgs>();
          read_.emplace_back(args.filehandle, args.state_id);
          return false;
        }
        default:
          return false;  // the reply to OPEN has the handle of the name
      }
    };
    StartWorker();
  }
  absl::Mutex mutex_;
  std::vector<wire::FileHandle> closed_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::pair<wire::FileHandle, wire::StateId>> read_ ABSL_GUARDED_BY(mutex_);
};

// Shows DAFS-4.1.4-17: two handles may belong to one file or to two. The mount reads through the
// handle that the lookup returned, and does not use the open of the other handle.
TEST_F(AnotherHandleAtOpen, IsClosedAndTheFileIsReadByItsOwnHandle) {
  const uint64_t node = Lookup(kRootNode, "f").nodeid;
  fuse_open_in open = {.flags = O_RDONLY, .open_flags = 0};
  const FakeKernel::Answer opened = kernel_.Call(FUSE_OPEN, node, Raw(open));
  ASSERT_EQ(opened.error, 0);
  fuse_read_in in = {};
  in.fh = opened.As<fuse_open_out>().fh;
  in.size = 100;
  const FakeKernel::Answer read = kernel_.Call(FUSE_READ, node, Raw(in));
  EXPECT_EQ(read.error, 0);
  EXPECT_EQ(read.body.size(), 100u);
  absl::MutexLock lock(&mutex_);
  ASSERT_EQ(closed_.size(), 1u);
  EXPECT_EQ(closed_[0], Handle("f"));
  ASSERT_EQ(read_.size(), 1u);
  EXPECT_EQ(read_[0].first, Handle("looked up"));
  EXPECT_TRUE(read_[0].second.is_zero());
}

// ---- Listings --------------------------------------------------------------------------------

// The server's cookies do not increase. Each page has its own verifier, which the server requires
// together with the page's cookies.
class AnyCookies : public ScriptedWorkerTest {
 protected:
  void SetUp() override {
    server_.script = [this, last = uint64_t{0}, issued = std::map<uint64_t, uint64_t>()](
                         ScriptedConnection& c, const Request& request) mutable {
      if (request.header.procedure != Proc::kReaddirDirect) return false;
      const auto args = request.Decode<wire::ReaddirDirectArgs>();
      const uint64_t verifier = args.cookie == 0 ? 0 : issued[args.cookie];
      if (wire::OpaqueToUint64(args.cookieverf) != verifier) {
        c.Refuse(request, DafsStatus::kBadCookie);
        return true;
      }
      size_t at = 0;
      while (args.cookie != 0 && kEntries[at++].first != args.cookie) continue;
      std::vector<ListedEntry> page;
      ++last;
      for (; at < std::size(kEntries) && page.size() < 2; ++at) {
        wire::FileAttributes attributes = ScriptedAttributes(args.attr_request_bitmap);
        attributes.valid = 0;  // not available (R36)
        page.push_back({kEntries[at].first, kEntries[at].second, attributes});
        issued[kEntries[at].first] = last;
      }
      if (args.cookie == 0) ++begun_;
      AnswerListing(c, request, args, page, last, page.empty());
      return true;
    };
    StartWorker();
  }
  static constexpr std::pair<uint64_t, const char*> kEntries[] = {
      {900, "a"}, {7, "b"}, {uint64_t{1} << 62, "c"}, {8, "d"}, {3, "e"}};
  std::atomic<int> begun_{0};
};

// Shows DAFS-6.5.29-02, DAFS-6.5.29-09: the verifier is zero at first, and then that of the
// previous page. Cookies are returned unchanged.
TEST_F(AnyCookies, AreReturnedWithTheVerifierOfTheirPage) {
  fuse_read_in in = {};
  in.fh = kernel_.Call(FUSE_OPENDIR, kRootNode, Raw(fuse_open_in{})).As<fuse_open_out>().fh;
  for (int rewound = 0; rewound < 2; ++rewound) {
    std::vector<std::string> names;
    in.offset = 0;
    in.size = 4096;
    for (int round = 0; round < 20; ++round) {
      const FakeKernel::Answer listed = kernel_.Call(FUSE_READDIR, kRootNode, Raw(in));
      ASSERT_EQ(listed.error, 0);
      if (listed.body.empty()) break;
      for (const Listed& entry : Entries(listed.body, false, &in.offset)) {
        names.push_back(entry.name);
        EXPECT_NE(entry.ino, 0u);  // readdir(3) skips entries with number 0
      }
    }
    EXPECT_THAT(names, testing::ElementsAre(".", "..", "a", "b", "c", "d", "e"));
  }
  EXPECT_GE(begun_, 2);
}

class LargeAcls : public ScriptedWorkerTest {};

// An entry does not fit together with its ACL. It is listed without the ACL.
TEST_F(LargeAcls, DoNotPreventAListing) {
  std::atomic<int> refused{0};
  server_.script = [&refused](ScriptedConnection& c, const Request& request) {
    if (request.header.procedure != Proc::kReaddirDirect) return false;
    const auto args = request.Decode<wire::ReaddirDirectArgs>();
    if ((args.attr_request_bitmap & wire::kFattrAcl) != 0) {
      ++refused;
      c.Refuse(request, DafsStatus::kReaddirNoSpc);
      return true;
    }
    AnswerListing(c, request, args, {{3, "a", ScriptedAttributes(args.attr_request_bitmap)}}, 1,
                  true);
    return true;
  };
  StartWorker();
  fuse_read_in in = {};
  in.fh = kernel_.Call(FUSE_OPENDIR, kRootNode, Raw(fuse_open_in{})).As<fuse_open_out>().fh;
  in.size = 4096;
  const FakeKernel::Answer listed = kernel_.Call(FUSE_READDIRPLUS, kRootNode, Raw(in));
  ASSERT_EQ(listed.error, 0);
  std::vector<std::string> names;
  for (const Listed& entry : Entries(listed.body, true, &in.offset)) names.push_back(entry.name);
  EXPECT_THAT(names, testing::ElementsAre(".", "..", "a"));
  EXPECT_EQ(refused, 1);
}

class ReservedCookies : public ScriptedWorkerTest {};

// A program that continues after such an entry would start at the beginning again.
TEST_F(ReservedCookies, AreAnErrorAndCauseNoEndlessListing) {
  std::atomic<uint64_t> cookie{0};
  server_.script = [&cookie](ScriptedConnection& c, const Request& request) {
    if (request.header.procedure != Proc::kReaddirDirect) return false;
    const auto args = request.Decode<wire::ReaddirDirectArgs>();
    const wire::FileAttributes attributes = ScriptedAttributes(args.attr_request_bitmap);
    AnswerListing(c, request, args, {{cookie, "a", attributes}}, 1, true);
    return true;
  };
  StartWorker();
  for (cookie = 0; cookie <= 3; ++cookie) {
    fuse_read_in in = {};
    in.fh = kernel_.Call(FUSE_OPENDIR, kRootNode, Raw(fuse_open_in{})).As<fuse_open_out>().fh;
    in.size = 4096;
    EXPECT_EQ(kernel_.Call(FUSE_READDIR, kRootNode, Raw(in)).error, cookie < 3 ? EIO : 0);
  }
  worker_.reset();  // before the variables that the script refers to
}

// ---- Owners ----------------------------------------------------------------------------------

class OwnersByName : public ScriptedWorkerTest {
 protected:
  static ListedEntry Entry(uint64_t cookie, const std::string& name, const std::string& owner,
                           uint64_t bits) {
    wire::FileAttributes attributes = ScriptedAttributes(bits);
    attributes.file_id = cookie;
    attributes.filehandle = Handle(name);
    attributes.set(wire::kFattrOwner | wire::kFattrOwnerGroup);
    attributes.owner = owner;
    attributes.owner_group = "staff@example.com";
    return {cookie, name, attributes};
  }
  void SetUp() override {
    id_names_ = std::make_shared<client::testing::FakeIdNames>();
    server_.extensions = wire::kExtensionOwnerNames;
    server_.script = [this](ScriptedConnection& c, const Request& request) {
      if (request.header.procedure == Proc::kSetattrInline) {
        absl::MutexLock lock(&mutex_);
        set_ = request.Decode<wire::SetattrInlineArgs>().obj_attributes.owner;
      }
      if (request.header.procedure != Proc::kReaddirDirect) return false;
      const auto args = request.Decode<wire::ReaddirDirectArgs>();
      const uint64_t bits = args.attr_request_bitmap;
      AnswerListing(c, request, args,
                    {Entry(3, "a", "alice@example.com", bits),
                     Entry(4, "b", "bob@example.com", bits), Entry(5, "c", "7", bits)},
                    1, true);
      return true;
    };
    StartWorker();
  }

  absl::Mutex mutex_;
  std::string set_ ABSL_GUARDED_BY(mutex_);  // the owner in the latest SETATTR
};

TEST_F(OwnersByName, ListingHasNumbers) {
  fuse_read_in in = {};
  in.fh = kernel_.Call(FUSE_OPENDIR, kRootNode, Raw(fuse_open_in{})).As<fuse_open_out>().fh;
  in.size = 4096;
  const FakeKernel::Answer listed = kernel_.Call(FUSE_READDIRPLUS, kRootNode, Raw(in));
  ASSERT_EQ(listed.error, 0);
  std::map<std::string, std::pair<uint32_t, uint32_t>> owners;
  for (size_t at = 0; at < listed.body.size();) {
    const auto entry = listed.As<fuse_entry_out>(at);
    at += sizeof(entry);
    fuse_dirent dirent = {};
    std::memcpy(&dirent, listed.body.data() + at, FUSE_NAME_OFFSET);
    if (entry.nodeid != 0) {
      owners[listed.body.substr(at + FUSE_NAME_OFFSET, dirent.namelen)] = {entry.attr.uid,
                                                                           entry.attr.gid};
    }
    at += FUSE_DIRENT_ALIGN(FUSE_NAME_OFFSET + dirent.namelen);
  }
  EXPECT_THAT(owners, testing::ElementsAre(testing::Pair("a", testing::Pair(5001, 6001)),
                                           testing::Pair("b", testing::Pair(65534, 6001)),
                                           testing::Pair("c", testing::Pair(7, 6001))));
}

TEST_F(OwnersByName, ChownSendsTheName) {
  fuse_setattr_in in = {};
  in.valid = FATTR_UID;
  in.uid = 5001;
  ASSERT_EQ(kernel_.Call(FUSE_SETATTR, kRootNode, Raw(in)).error, 0);
  absl::MutexLock lock(&mutex_);
  EXPECT_EQ(set_, "alice@example.com");
}

// ---- State ids -------------------------------------------------------------------------------

class StateIds : public ScriptedWorkerTest {
 protected:
  void SetUp() override {
    server_.script = [this](ScriptedConnection&, const Request& request) {
      absl::MutexLock lock(&mutex_);
      if (request.header.procedure == Proc::kSetattrInline) {
        set_.push_back(request.Decode<wire::SetattrInlineArgs>().state_id);
      }
      if (request.header.procedure == Proc::kClose) {
        closed_.push_back(request.Decode<wire::CloseArgs>().state_id);
      }
      return false;
    };
    StartWorker();
  }
  absl::Mutex mutex_;
  std::vector<wire::StateId> set_ ABSL_GUARDED_BY(mutex_);
  std::vector<wire::StateId> closed_ ABSL_GUARDED_BY(mutex_);
};

// Shows DAFS-4.4.1.2-03, DAFS-6.5.24-03: a SETATTR that does not change the size has no state id,
// even through a descriptor. CLOSE returns the state id that OPEN created.
TEST_F(StateIds, AreSentOnlyWithSizeChangesAndAreClosedWithTheDescriptor) {
  fuse_create_in create = {};
  create.flags = O_RDWR | O_CREAT;
  create.mode = S_IFREG | 0644;
  const FakeKernel::Answer created = kernel_.Call(FUSE_CREATE, kRootNode, Raw(create) + Name("f"));
  ASSERT_EQ(created.error, 0);
  const uint64_t node = created.As<fuse_entry_out>().nodeid;
  const uint64_t fh = created.As<fuse_open_out>(sizeof(fuse_entry_out)).fh;
  for (const uint32_t what : {uint32_t{FATTR_MODE}, uint32_t{FATTR_MTIME}, uint32_t{FATTR_SIZE}}) {
    fuse_setattr_in in = {};
    in.valid = what | FATTR_FH;
    in.fh = fh;
    in.mode = 0600;
    in.size = 10;
    EXPECT_EQ(kernel_.Call(FUSE_SETATTR, node, Raw(in)).error, 0) << what;
  }
  fuse_release_in release = {};
  release.fh = fh;
  EXPECT_EQ(kernel_.Call(FUSE_RELEASE, node, Raw(release)).error, 0);
  absl::MutexLock lock(&mutex_);
  EXPECT_TRUE(mutex_.AwaitWithTimeout(
      absl::Condition(
          +[](std::vector<wire::StateId>* closed) { return !closed->empty(); }, &closed_),
      absl::Seconds(30)));
  ASSERT_EQ(set_.size(), 3u);
  EXPECT_TRUE(set_[0].is_zero());
  EXPECT_TRUE(set_[1].is_zero());
  EXPECT_FALSE(set_[2].is_zero());
  ASSERT_EQ(closed_.size(), 1u);
  EXPECT_EQ(closed_[0], set_[2]);
}

// ---- Changes of a directory's attributes
// ----------------------------------------------------------

class ChangesOfADirectory : public ScriptedWorkerTest {
 protected:
  void SetUp() override {
    server_.script = [this](ScriptedConnection&, const Request&) {
      absl::MutexLock lock(&mutex_);
      if (watches_) seen_.push_back(state_->caches.attributes.IsChanging(kRootNode));
      return false;
    };
    StartWorker();
  }
  // Whether the change was in progress at each request that `opcode` has sent.
  std::vector<bool> SeenBy(uint32_t opcode, const std::string& body) {
    SetWatches(true);
    kernel_.Call(opcode, kRootNode, body);
    SetWatches(false);
    absl::MutexLock lock(&mutex_);
    return std::exchange(seen_, {});
  }
  void SetWatches(bool watches) {
    absl::MutexLock lock(&mutex_);
    watches_ = watches;
  }

  absl::Mutex mutex_;
  bool watches_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<bool> seen_ ABSL_GUARDED_BY(mutex_);
};

// The kernel holds the lock of the directory meanwhile, so an announced change must not wait for it
// (PromiseBreaks).
TEST_F(ChangesOfADirectory, AreInProgressUntilTheServerHasAnswered) {
  fuse_setattr_in chmod = {};
  chmod.valid = FATTR_MODE;
  chmod.mode = 0700;
  const std::string value = "value";
  const uint32_t set_head[] = {static_cast<uint32_t>(value.size()), 0};  // size, flags
  const std::pair<uint32_t, std::string> changes[] = {
      {FUSE_SETATTR, Raw(chmod)},
      {FUSE_SETXATTR, Raw(set_head) + Name("user.x") + value},
      {FUSE_REMOVEXATTR, Name("user.x")}};
  for (const auto& [opcode, body] : changes) {
    const std::vector<bool> seen = SeenBy(opcode, body);
    ASSERT_FALSE(seen.empty()) << opcode;
    EXPECT_TRUE(seen.front()) << opcode;
    EXPECT_FALSE(state_->caches.attributes.IsChanging(kRootNode)) << opcode;
  }
  worker_.reset();  // before the variables that the script refers to
}

}  // namespace
}  // namespace dafs::fuse
