// The effect and the lifetime of reservations and share keys. Spec: 4.4.1.2, 4.4.2, 6.5.26.
#include "tests/server/store/store_fixture.h"

namespace dafs::server {
namespace {

class StoreSharesTest : public StoreTest {
 protected:
  void SetUp() override {
    StoreTest::SetUp();
    if (IsSkipped()) return;
    Start();
    WriteFile(Path("a/f"), "content", 0666);
  }
  Opened MustOpenAs(const Caller& caller, const std::string& owner, uint32_t access,
                    uint32_t deny = wire::kShareDenyNone) {
    wire::OpenArgs args = OpenArgs(A(), "f", access);
    args.owner = owner;
    args.share_deny = deny;
    return MustOpen(caller, args);
  }
  DafsStatus OpenWithKey(const Caller& caller, const std::string& owner, uint64_t key,
                         Opened* opened = nullptr) {
    wire::OpenArgs args = OpenArgs(A(), "f");
    args.owner = owner;
    return OpenWithKey(caller, args, key, opened);
  }
  DafsStatus OpenWithKey(const Caller& caller, wire::OpenArgs args, uint64_t key, Opened* opened) {
    args.share_key_type = wire::ShareKeyType::kBoth;
    args.share_key = key;
    wire::OpenRes res;
    const DafsStatus status = store_->opens().Open(caller, args, &res);
    if (opened != nullptr) *opened = {res.filehandle, res.state_id};
    return status;
  }
  DafsStatus Cut(const Caller& caller, const Opened& opened) {
    wire::FileAttributes size;
    size.set(wire::kFattrObjectSize);
    uint64_t set = 0;
    return store_->attributes().Setattr(caller, opened.filehandle, opened.state_id, size, &set);
  }
  DafsStatus Downgrade(const Caller& caller, const Opened& opened, uint32_t access, uint32_t deny) {
    wire::OpenDowngradeArgs args;
    args.filehandle = opened.filehandle;
    args.state_id = opened.state_id;
    args.share_access = access;
    args.share_deny = deny;
    return store_->opens().OpenDowngrade(caller, args);
  }
};

// Shows DAFS-4.4.1.2-49: an open permits only the access that it was granted.
TEST_F(StoreSharesTest, ReadOpenCannotTruncateFileThatDeniesWriting) {
  const Opened denier = MustOpenAs(user_, "denier", wire::kShareRead, wire::kShareWrite);
  const Opened reader = MustOpenAs(other_, "reader", wire::kShareRead);
  EXPECT_DAFS(kDenied, Cut(other_, reader));
  EXPECT_DAFS(kDenied, Cut(other_, {reader.filehandle, {}}));
  EXPECT_EQ(Read(other_, reader), "content");
  ASSERT_OK(Close(user_, denier));
  EXPECT_OK(Cut(other_, reader));
  EXPECT_EQ(Read(other_, reader), "");
}

// Shows DAFS-4.4.1.2-49, DAFS-6.5.27-06 (reservations)
TEST_F(StoreSharesTest, WriteOpenCannotReadFileThatDeniesReading) {
  const Opened denier = MustOpenAs(user_, "denier", wire::kShareWrite, wire::kShareRead);
  const Opened writer = MustOpenAs(other_, "writer", wire::kShareWrite);
  EXPECT_EQ(Read(other_, writer), "DAFSERR_DENIED");
  EXPECT_OK(Write(other_, writer, 0, "C"));
  ASSERT_OK(Close(user_, denier));
  EXPECT_EQ(Read(other_, writer), "Content");
  ASSERT_OK(Close(other_, writer));
  // An open does not conflict with its own reservation.
  const Opened own = MustOpenAs(other_, "own", wire::kShareWrite, wire::kShareBoth);
  EXPECT_EQ(Read(other_, own), "Content");
  EXPECT_EQ(Read(user_, {own.filehandle, {}}), "DAFSERR_DENIED");
  EXPECT_EQ(Read(other_, {own.filehandle, {}}), "DAFSERR_DENIED");
}

// Shows DAFS-6.5.27-02 (the checks), DAFS-6.5.27-06 (permission and state id): also a READ of 0
// bytes.
TEST_F(StoreSharesTest, EveryReadIsCheckedAgainstItsStateId) {
  const Opened mine = MustOpenAs(user_, "mine", wire::kShareRead);
  for (const size_t size : {size_t{0}, size_t{100}}) {
    SCOPED_TRACE(size);
    const std::string all = std::string("content").substr(0, size);
    EXPECT_EQ(Read(user_, mine, 0, size), all);
    EXPECT_EQ(Read(other_, {mine.filehandle, {}}, 0, size), all);
    EXPECT_EQ(Read(other_, mine, 0, size), "DAFSERR_BAD_STATEID");
    wire::StateId unknown = mine.state_id;
    unknown.bytes[7] ^= 0x40;
    EXPECT_EQ(Read(user_, {mine.filehandle, unknown}, 0, size), "DAFSERR_BAD_STATEID");
    Store::RestoreServerIdentity();
    ASSERT_EQ(chmod(Path("a/f").c_str(), 0600), 0);
    EXPECT_EQ(Read(other_, {mine.filehandle, {}}, 0, size), "DAFSERR_ACCES");
    Store::RestoreServerIdentity();
    ASSERT_EQ(chmod(Path("a/f").c_str(), 0666), 0);
  }
  ASSERT_OK(Close(user_, mine));
  for (const size_t size : {size_t{0}, size_t{100}}) {
    EXPECT_EQ(Read(user_, mine, 0, size), "DAFSERR_BAD_STATEID");
  }
}

// Shows DAFS-6.5.26-03
TEST_F(StoreSharesTest, DowngradeNeverConflictsWithReservations) {
  const Opened mine = MustOpenAs(user_, "mine", wire::kShareBoth, wire::kShareRead);
  const Opened yours = MustOpenAs(other_, "yours", wire::kShareWrite);
  EXPECT_DAFS(kDenied, OpenWithKey(root_, "keyed", 7));
  EXPECT_OK(Downgrade(user_, mine, wire::kShareWrite, wire::kShareRead));
  EXPECT_OK(Downgrade(other_, yours, wire::kShareWrite, wire::kShareDenyNone));
  EXPECT_OK(Downgrade(user_, mine, wire::kShareWrite, wire::kShareDenyNone));
  EXPECT_DAFS(kInval, Downgrade(user_, mine, wire::kShareWrite, wire::kShareRead));
  EXPECT_OK(OpenWithKey(root_, "keyed", 7));
}

// Shows DAFS-4.4.2-02
TEST_F(StoreSharesTest, DenyIsCheckedBeforeShareKey) {
  const auto open = [&](const Caller& caller, uint32_t access, uint32_t deny, uint64_t key,
                        Opened* opened = nullptr) {
    wire::OpenArgs args = OpenArgs(A(), "f", access);
    args.share_deny = deny;
    return OpenWithKey(caller, args, key, opened);
  };
  Opened holder;
  ASSERT_OK(open(user_, wire::kShareBoth, wire::kShareWrite, 7, &holder));
  EXPECT_DAFS(kDenied, open(other_, wire::kShareWrite, wire::kShareDenyNone, 7));
  EXPECT_DAFS(kDenied, open(other_, wire::kShareWrite, wire::kShareDenyNone, 8));
  EXPECT_DAFS(kDenied, open(other_, wire::kShareRead, wire::kShareRead, 8));
  EXPECT_DAFS(kKeyMismatch, open(other_, wire::kShareRead, wire::kShareDenyNone, 8));
  Opened reader;
  EXPECT_OK(open(other_, wire::kShareRead, wire::kShareDenyNone, 7, &reader));
  ASSERT_OK(Close(user_, holder));
  EXPECT_DAFS(kKeyMismatch, open(user_, wire::kShareWrite, wire::kShareDenyNone, 8));
  EXPECT_OK(open(user_, wire::kShareWrite, wire::kShareDenyNone, 7));
}

// Shows FAST03-3.2-06, DAFS-4.4.2-03, DAFS-4.4.2-05
TEST_F(StoreSharesTest, ShareKeyLastsUntilAllOpensWithItAreClosed) {
  Opened one, two;
  const Opened keyless = MustOpenAs(root_, "keyless", wire::kShareRead);
  ASSERT_OK(OpenWithKey(user_, "one", 7, &one));
  ASSERT_OK(OpenWithKey(other_, "two", 7, &two));
  EXPECT_DAFS(kKeyMismatch, OpenWithKey(root_, "three", 8));
  ASSERT_OK(Close(user_, one));
  EXPECT_DAFS(kKeyMismatch, OpenWithKey(root_, "three", 8));
  EXPECT_DAFS(kKeyMismatch, OpenWithKey(user_, "one", 8));
  EXPECT_OK(OpenWithKey(other_, "two", 7));  // merged into the open; one CLOSE ends it
  ASSERT_OK(Close(other_, two));
  EXPECT_OK(OpenWithKey(root_, "three", 8));
  EXPECT_DAFS(kKeyMismatch, OpenWithKey(user_, "one", 7));
  EXPECT_EQ(Read(root_, keyless), "content");
}

// Even the only holder cannot change the key: it has to close or downgrade its open first.
TEST_F(StoreSharesTest, OwnerCannotReplaceItsShareKey) {
  Opened mine;
  ASSERT_OK(OpenWithKey(user_, "mine", 7, &mine));
  EXPECT_DAFS(kKeyMismatch, OpenWithKey(user_, "mine", 8));
  EXPECT_OK(OpenWithKey(other_, "yours", 7));  // the key is still in force
  EXPECT_EQ(store_->inventory().open_count(), 2u);
}

TEST_F(StoreSharesTest, OwnerMayUseAnotherShareKeyAfterReleasingOne) {
  Opened mine;
  ASSERT_OK(OpenWithKey(user_, "mine", 7, &mine));
  ASSERT_OK(Downgrade(user_, mine, wire::kShareBoth, wire::kShareDenyNone));
  EXPECT_OK(OpenWithKey(user_, "mine", 8));
  EXPECT_DAFS(kKeyMismatch, OpenWithKey(other_, "yours", 7));
}

}  // namespace
}  // namespace dafs::server
