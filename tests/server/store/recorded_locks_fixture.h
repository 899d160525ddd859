// A store whose clients have names, for tests of the locks that outlive their client: node1 is
// user_, node2 is other_. Each has the file a/f open.
#pragma once

#include <string_view>
#include <vector>

#include "server/store/holdings/persistent_locks.h"
#include "tests/server/store/store_fixture.h"

namespace dafs::server {

class RecordedLocksTest : public StoreTest {
 protected:
  using State = PersistentLocks::State;

  void SetUp() override {
    StoreTest::SetUp();
    if (IsSkipped()) return;
    Start();
    user_ = Client("node1", 1, 1);
    other_ = Client("node2", 2, 1);
    ASSERT_OK(Write(user_, MustOpen(user_, CreateArgs(A(), "f", 0666)), 0, kBefore));
    OpenAgain();
  }

  // `instance`: of the client; its verifier is made of it.
  static Caller Client(std::string_view name, uint64_t client_id, uint8_t instance) {
    Caller caller;
    caller.client_id = wire::OpaqueFromUint64<wire::ClientId>(client_id);
    caller.client_name = name;
    caller.client_verifier.bytes[0] = instance;
    caller.uid = caller.gid = 0;
    return caller;
  }
  // Sets result_.
  wire::DafsStatus LockOnce(const Caller& caller, const Opened& opened, uint64_t offset,
                            uint64_t length, uint32_t options,
                            wire::LockType type = wire::LockType::kWrite) {
    wire::LockArgs args;
    args.filehandle = opened.filehandle;
    args.state_id = opened.state_id;
    args.offset = offset;
    args.length = length;
    args.lock_type = type;
    args.options = options;
    result_ = {};
    return store_->locks().Lock(caller, args, &result_);
  }
  wire::DafsStatus Unlock(const Caller& caller, const Opened& opened, uint64_t offset,
                          uint64_t length) {
    wire::LockuArgs args;
    args.filehandle = opened.filehandle;
    args.state_id = opened.state_id;
    args.offset = offset;
    args.length = length;
    args.lock_type = wire::LockType::kWrite;
    return store_->locks().Locku(caller, args);
  }
  std::vector<State> States() {
    std::vector<State> states;
    for (const auto& entry : store_->persistent_locks().List()) states.push_back(entry.state);
    return states;
  }
  void OpenAgain() {
    mine_ = MustOpen(user_, OpenArgs(A(), "f"));
    theirs_ = MustOpen(other_, OpenArgs(A(), "f"));
  }

  const std::string kBefore = "0123456789";
  Opened mine_, theirs_;
  wire::LockRes result_;
};

}  // namespace dafs::server
