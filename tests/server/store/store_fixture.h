// A Store over temporary directories, with short forms of its calls. Without root the tests are
// reported as skipped.
#pragma once

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/store/parts/export_directories.h"
#include "server/store/parts/export_reload.h"
#include "server/store/parts/releases.h"
#include "server/store/procedures/attribute_procedures.h"
#include "server/store/procedures/data_procedures.h"
#include "server/store/procedures/lock_procedures.h"
#include "server/store/procedures/name_procedures.h"
#include "server/store/procedures/open_procedures.h"
#include "server/store/store.h"
#include "wire/messages/messages.h"

namespace dafs::server {

using wire::DafsStatus;

#define EXPECT_DAFS(expected, ...) \
  EXPECT_EQ(wire::Name(wire::DafsStatus::expected), wire::Name(__VA_ARGS__))
#define ASSERT_DAFS(expected, ...) \
  ASSERT_EQ(wire::Name(wire::DafsStatus::expected), wire::Name(__VA_ARGS__))
#define EXPECT_OK(...) EXPECT_DAFS(kOk, __VA_ARGS__)
#define ASSERT_OK(...) ASSERT_DAFS(kOk, __VA_ARGS__)

class StoreTest : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "needs root: handles are opened and identities taken";
    umask(0);
    char name[] = "/tmp/dafs-store-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    base_ = name;
    chmod(base_.c_str(), 0755);
    mkdir(Path("state").c_str(), 0700);
    mkdir(Path("a").c_str(), 0777);
    mkdir(Path("b").c_str(), 0777);
    exports_ = {Named("/a", "a"), Named("/deep/b", "b")};
    exports_[0].squash = Squash::kNone;
    root_.client_id = wire::OpaqueFromUint64<wire::ClientId>(1);
    root_.uid = root_.gid = 0;
    user_.client_id = wire::OpaqueFromUint64<wire::ClientId>(1);
    user_.uid = user_.gid = 1000;
    other_.client_id = wire::OpaqueFromUint64<wire::ClientId>(2);
    other_.uid = other_.gid = 1001;
  }

  void TearDown() override {
    store_.reset();
    Store::RestoreServerIdentity();
    if (!base_.empty()) std::filesystem::remove_all(base_);
  }

  std::string Path(const std::string& name) const { return base_ + "/" + name; }

  Export Named(const std::string& name, const std::string& dir) const {
    Export e;
    e.name = name;
    e.directory = Path(dir);
    e.insecure = true;  // most Callers here have no port
    return e;
  }

  StoreOptions Options() const {
    StoreOptions options;
    options.exports = exports_;
    options.state_dir = Path("state");
    return options;
  }

  // Starts the store, or restarts it with the same state directory.
  void Start() { Start(Options()); }
  void Start(StoreOptions options) {
    store_.reset();
    absl::StatusOr<std::unique_ptr<Store>> store = Store::Open(std::move(options));
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }

  // Returns the handle of a path from the root of the name space, looked up as root.
  wire::FileHandle Handle(const wire::Pathname& path) {
    wire::LookupArgs args;
    EXPECT_OK(store_->names().GetRootHandle(root_, &args.directory));
    if (path.empty()) return args.directory;
    args.path = path;
    wire::LookupRes res;
    EXPECT_OK(store_->names().Lookup(root_, args, &res));
    return res.filehandle;
  }
  wire::FileHandle A() { return Handle({"a"}); }

  DafsStatus Lookup(const Caller& caller, const wire::FileHandle& dir, const std::string& name,
                    wire::FileHandle* handle = nullptr) {
    wire::LookupArgs args;
    args.directory = dir;
    args.path = {name};
    wire::LookupRes res;
    const DafsStatus status = store_->names().Lookup(caller, args, &res);
    if (handle != nullptr) *handle = res.filehandle;
    return status;
  }

  wire::FileAttributes Attributes(const wire::FileHandle& handle,
                                  uint64_t bitmap = wire::kFattrAll) {
    wire::FileAttributes attributes;
    EXPECT_OK(store_->attributes().Getattr(root_, handle, bitmap, &attributes));
    return attributes;
  }

  wire::OpenArgs OpenArgs(const wire::FileHandle& dir, const std::string& name,
                          uint32_t access = wire::kShareBoth) {
    wire::OpenArgs args;
    args.dir_handle = dir;
    args.pathname = {name};
    args.owner = "owner";
    args.share_access = access;
    return args;
  }
  wire::OpenArgs CreateArgs(const wire::FileHandle& dir, const std::string& name,
                            uint32_t mode = 0644) {
    wire::OpenArgs args = OpenArgs(dir, name);
    args.open_type = wire::OpenType::kCreate;
    args.createattrs.set(wire::kFattrMode);
    args.createattrs.mode = mode;
    return args;
  }

  struct Opened {
    wire::FileHandle filehandle;
    wire::StateId state_id;
  };
  // Opens or creates a file, and expects success.
  Opened MustOpen(const Caller& caller, const wire::OpenArgs& args) {
    wire::OpenRes res;
    EXPECT_OK(store_->opens().Open(caller, args, &res));
    return {res.filehandle, res.state_id};
  }

  DafsStatus Close(const Caller& caller, const Opened& opened) {
    wire::CloseArgs args;
    args.filehandle = opened.filehandle;
    args.state_id = opened.state_id;
    return store_->opens().Close(caller, args);
  }

  DafsStatus Remove(const Caller& caller, const wire::FileHandle& dir, const std::string& name) {
    wire::RemoveArgs args;
    args.filehandle = dir;
    args.target = name;
    wire::RemoveRes res;
    return store_->names().Remove(caller, args, &res);
  }

  DafsStatus Rename(const Caller& caller, const wire::FileHandle& from, const std::string& oldname,
                    const wire::FileHandle& to, const std::string& newname) {
    wire::RenameArgs args;
    args.sourcedir = from;
    args.targetdir = to;
    args.oldname = oldname;
    args.newname = newname;
    wire::RenameRes res;
    return store_->names().Rename(caller, args, &res);
  }

  DafsStatus Create(const Caller& caller, const wire::FileHandle& dir, const std::string& name,
                    wire::ObjectType type, wire::FileHandle* handle = nullptr) {
    wire::CreateArgs args;
    args.filehandle = dir;
    args.component = name;
    args.obj_type = type;
    if (type == wire::ObjectType::kLnk) args.linkdata = "target";
    args.specdata = {1, 3};  // kChr, kBlk; 0:0 is not a device, any user may create it
    if (type == wire::ObjectType::kDir) {
      args.attr.set(wire::kFattrMode);
      args.attr.mode = 0755;
    }
    wire::CreateRes res;
    const DafsStatus status = store_->names().Create(caller, args, &res);
    if (handle != nullptr) *handle = res.filehandle;
    return status;
  }

  DafsStatus Write(const Caller& caller, const Opened& opened, uint64_t offset, std::string data,
                   wire::StableHow stable = wire::StableHow::kUnstable,
                   WriteResult* res = nullptr) {
    const iovec v = {data.data(), data.size()};
    WriteResult unused;
    return store_->data().Write(caller, opened.filehandle, opened.state_id, offset, {&v, 1}, stable,
                                res != nullptr ? res : &unused);
  }

  // Returns the bytes read, or the name of the status.
  std::string Read(const Caller& caller, const Opened& opened, uint64_t offset = 0,
                   size_t size = 4096, ReadResult* result = nullptr) {
    std::string into(size, '\0');
    const ReadResult r =
        store_->data().Read(caller, opened.filehandle, opened.state_id, offset,
                            std::as_writable_bytes(std::span(into)), ReadMode::kWait);
    if (result != nullptr) *result = r;
    if (r.status != DafsStatus::kOk) return std::string(wire::Name(r.status));
    into.resize(r.bytes_read);
    return into;
  }

  // Returns the verifier that COMMIT of the file reports.
  wire::Verifier CommitVerifier(const Opened& opened) {
    wire::CommitArgs args;
    args.filehandle = opened.filehandle;
    wire::CommitRes res;
    EXPECT_OK(store_->data().Commit(user_, args, &res));
    return res.writeverf;
  }

  struct Entry {
    uint64_t cookie;
    std::string name;
    wire::FileAttributes attributes;
  };
  // Lists at most `most` entries after `cookie`.
  DafsStatus List(const Caller& caller, const wire::FileHandle& dir, uint64_t cookie, size_t most,
                  std::vector<Entry>* entries, ReaddirResult* res, uint64_t bitmap = 0) {
    ReaddirRequest request;
    request.filehandle = dir;
    request.cookie = cookie;
    if (cookie != 0) request.cookieverf = cookieverf_;
    request.attr_request_bitmap = bitmap;
    const DafsStatus status = store_->names().Readdir(
        caller, request,
        [&](uint64_t at, std::string_view name, wire::FileAttributes& attributes) {
          if (entries->size() >= most) return false;
          entries->push_back({at, std::string(name), std::move(attributes)});
          return true;
        },
        res);
    cookieverf_ = res->cookieverf;
    return status;
  }
  // Returns all names, by one call.
  std::vector<std::string> Names(const Caller& caller, const wire::FileHandle& dir) {
    std::vector<Entry> entries;
    ReaddirResult res;
    EXPECT_OK(List(caller, dir, 0, SIZE_MAX, &entries, &res));
    EXPECT_TRUE(res.eof);
    std::vector<std::string> names;
    names.reserve(entries.size());
    for (const Entry& entry : entries) names.push_back(entry.name);
    return names;
  }

  // Direct access to the exported files on the server, without the store.
  void WriteFile(const std::string& path, const std::string& content, mode_t mode = 0644) {
    Store::RestoreServerIdentity();
    std::ofstream(path) << content;
    chmod(path.c_str(), mode);
  }
  std::string FileContent(const std::string& path) {
    Store::RestoreServerIdentity();
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  struct stat Stat(const std::string& path) {
    Store::RestoreServerIdentity();
    struct stat st = {};
    lstat(path.c_str(), &st);
    return st;
  }

  std::string base_;
  std::vector<Export> exports_;
  std::unique_ptr<Store> store_;
  wire::Verifier cookieverf_;  // of the last listing
  Caller root_, user_, other_;
};

}  // namespace dafs::server
