// A store with two clients that take part in promises: that of root_ and user_, and that of other_.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "server/store/holdings/promises/promises.h"
#include "server/store/objects/handle.h"
#include "server/store/objects/recent_stats.h"
#include "tests/server/store/store_fixture.h"
#include "wire/protocol/header.h"

namespace dafs::server {

class PromisesTest : public StoreTest {
 protected:
  void SetUp() override {
    StoreTest::SetUp();
    if (IsSkipped()) return;
    Serve();
  }

  // Starts the store and admits both clients.
  void Serve() {
    Start();
    root_.promisee = user_.promisee = Admit(root_.client_id, "one");
    other_.promisee = Admit(other_.client_id, "two");
    root_.promises = user_.promises = other_.promises = &bits_;
  }
  Promisee Admit(const wire::ClientId& id, const std::string& name) {
    uint32_t granted = 0;
    const Promisee promisee = store_->promises().Admit(id, name, 1000, &granted);
    EXPECT_EQ(granted, 1000u);
    return promisee;
  }
  // The bits of the answer since the last call.
  uint16_t TakeBits() { return std::exchange(bits_, uint16_t{0}); }

  // What `caller` gets for a handle from GETATTR.
  uint16_t BitsOfGetattr(const Caller& caller, const wire::FileHandle& handle) {
    TakeBits();
    wire::FileAttributes attributes;
    EXPECT_OK(store_->attributes().Getattr(caller, handle, wire::kFattrAll, &attributes));
    return TakeBits();
  }
  uint16_t BitsOfLookup(const Caller& caller, const wire::FileHandle& directory,
                        const wire::Pathname& path, DafsStatus expected = DafsStatus::kOk) {
    TakeBits();
    wire::LookupArgs args;
    args.directory = directory;
    args.path = path;
    wire::LookupRes res;
    EXPECT_EQ(wire::Name(store_->names().Lookup(caller, args, &res)), wire::Name(expected));
    return TakeBits();
  }
  uint16_t BitsOfReaddir(const Caller& caller, const wire::FileHandle& directory,
                         uint64_t bitmap = 0) {
    TakeBits();
    std::vector<Entry> entries;
    ReaddirResult res;
    EXPECT_OK(List(caller, directory, 0, SIZE_MAX, &entries, &res, bitmap));
    return TakeBits();
  }
  uint64_t PromiseCount() { return store_->promises().GetCounts().promises; }

  static constexpr uint16_t kNames = wire::kSpcondNames;
  static constexpr uint16_t kAttributes = wire::kSpcondAttributes;
  static constexpr uint16_t kOnlyClients = wire::kSpcondOnlyClients;
  uint16_t bits_ = 0;
};

}  // namespace dafs::server
