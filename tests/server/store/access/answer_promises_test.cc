// Which answers carry promises. Spec: WIRE 9.6.
#include "server/store/access/answer_promises.h"

#include <gtest/gtest.h>

#include "server/store/holdings/promises/promises.h"
#include "tests/server/store/promises_fixture.h"

namespace dafs::server {
namespace {

class AnswerPromisesTest : public PromisesTest {
 protected:
  void SetUp() override {
    PromisesTest::SetUp();
    if (IsSkipped()) return;
    mkdir(Path("a/d").c_str(), 0777);
    WriteFile(Path("a/d/f"), "content", 0666);
    WriteFile(Path("a/g"), "content", 0666);
    a_ = A();
    d_ = Handle({"a", "d"});
    f_ = Handle({"a", "d", "f"});
    TakeBits();
  }
  // While it exists, a request of another client is about to change `handle`.
  struct Change {
    Change(Store& store, const wire::FileHandle& handle, uint8_t what)
        : changing(store.promises(), 0) {
      changing.Begin(KeyOf(handle), what);
    }
    Promises::Changing changing;
  };

  wire::FileHandle a_, d_, f_;
};

TEST_F(AnswerPromisesTest, LookupPromisesTheName) {
  EXPECT_EQ(BitsOfLookup(other_, a_, {"d"}), kNames);
  EXPECT_EQ(BitsOfLookup(other_, a_, {"none"}, DafsStatus::kNoEnt), kNames);
  Promises::Changing changing(store_->promises(), root_.promisee);
  EXPECT_FALSE(changing.Begin(KeyOf(a_), kPromisedNames, "none"));
  EXPECT_EQ(changing.TakeCalls().size(), 1u);
}

TEST_F(AnswerPromisesTest, PathIsPromisedOnlyIfEachStepIs) {
  EXPECT_EQ(BitsOfLookup(other_, a_, {"d", "f"}), kNames);
  EXPECT_EQ(BitsOfLookup(other_, a_, {"d", "none"}, DafsStatus::kNoEnt), kNames);
  for (const wire::FileHandle& changed : {a_, d_}) {
    const Change change(*store_, changed, kPromisedNames);
    EXPECT_EQ(BitsOfLookup(other_, a_, {"d", "f"}), 0);
    EXPECT_EQ(BitsOfLookup(other_, a_, {"d", "none"}, DafsStatus::kNoEnt), 0);
  }
  EXPECT_EQ(BitsOfLookup(other_, a_, {"d", "f"}), kNames);
}

TEST_F(AnswerPromisesTest, RefusedLookupPromisesNothing) {
  Store::RestoreServerIdentity();
  ASSERT_EQ(chmod(Path("a/d").c_str(), 0700), 0);
  EXPECT_EQ(BitsOfLookup(other_, d_, {"f"}, DafsStatus::kAcces), 0);
  EXPECT_EQ(BitsOfLookup(other_, f_, {"f"}, DafsStatus::kNotDir), 0);
}

TEST_F(AnswerPromisesTest, GetattrPromisesAttributesUnlessTheyChange) {
  EXPECT_EQ(BitsOfGetattr(other_, f_), kAttributes);
  EXPECT_EQ(BitsOfGetattr(other_, d_), kAttributes);
  {
    const Change change(*store_, f_, kPromisedAttributes);
    EXPECT_EQ(BitsOfGetattr(other_, f_), 0);
    EXPECT_EQ(BitsOfGetattr(other_, d_), kAttributes);
  }
  EXPECT_EQ(BitsOfGetattr(other_, f_), kAttributes);
  wire::FileAttributes attributes;
  wire::FileHandle forged = f_;
  forged.fileid.bytes[47] ^= 1;
  EXPECT_DAFS(kBadHandle,
              store_->attributes().Getattr(other_, forged, wire::kFattrAll, &attributes));
  EXPECT_EQ(TakeBits(), 0);
}

TEST_F(AnswerPromisesTest, ClientThatTakesNoPartGetsNothing) {
  Caller plain = other_;
  plain.promisee = 0;
  const uint64_t before = PromiseCount();
  EXPECT_EQ(BitsOfLookup(plain, a_, {"d"}), 0);
  EXPECT_EQ(BitsOfGetattr(plain, d_), 0);
  EXPECT_EQ(BitsOfReaddir(plain, d_, wire::kFattrFilehandle | wire::kFattrMode), 0);
  EXPECT_EQ(PromiseCount(), before);
}

TEST_F(AnswerPromisesTest, VerifyAndHintsContainNoAttributes) {
  wire::FileAttributes attributes = Attributes(f_, wire::kFattrMode);
  TakeBits();
  EXPECT_OK(store_->attributes().Verify(other_, f_, attributes));
  wire::CacheHintArgs hint;
  hint.filehandle = f_;
  absl::AnyInvocable<void()> later;
  EXPECT_OK(store_->data().CacheHint(other_, hint, &later));
  EXPECT_EQ(TakeBits(), 0);
}

// In a chain, GETATTR returns what the request before it read.
TEST_F(AnswerPromisesTest, GetattrInChainIsPromisedFromBeforeTheRead) {
  RecentStats recent;
  other_.recent = &recent;
  for (const bool cached : {false, true}) {
    SCOPED_TRACE(cached);
    recent.Clear();
    WriteFile(Path("a/d/new"), "new", 0666);
    if (cached) Handle({"a", "d", "new"});
    EXPECT_EQ(BitsOfLookup(other_, d_, {"new"}), kNames);
    wire::FileHandle file;
    ASSERT_OK(Lookup(other_, d_, "new", &file));
    ASSERT_NE(recent.Find(file), nullptr);
    EXPECT_TRUE(recent.Find(file)->is_promised);
    EXPECT_EQ(BitsOfGetattr(other_, file), kAttributes);
    std::filesystem::remove(Path("a/d/new"));
  }
  recent.Clear();
  wire::OpenHandleArgs open;
  open.filehandle = f_;
  open.share_access = wire::kShareRead;
  wire::OpenHandleRes opened;
  ASSERT_OK(store_->opens().OpenHandle(other_, open, &opened));
  EXPECT_TRUE(recent.Find(f_)->is_promised);
  EXPECT_EQ(BitsOfGetattr(other_, f_), kAttributes);
}

TEST_F(AnswerPromisesTest, AttributesReadBeforeThePromiseAreReadAgain) {
  RecentStats recent;
  other_.recent = &recent;
  {
    const Change change(*store_, f_, kPromisedAttributes);
    ASSERT_OK(Lookup(other_, d_, "f"));
    ASSERT_NE(recent.Find(f_), nullptr);
    EXPECT_EQ(BitsOfGetattr(other_, f_), 0);
    Store::RestoreServerIdentity();
    ASSERT_EQ(chmod(Path("a/d/f").c_str(), 0601), 0);
  }
  wire::FileAttributes attributes;
  TakeBits();
  ASSERT_OK(store_->attributes().Getattr(other_, f_, wire::kFattrMode, &attributes));
  EXPECT_EQ(TakeBits(), kAttributes);
  EXPECT_EQ(attributes.mode, 0601u);
}

TEST_F(AnswerPromisesTest, ReaddirPromisesNamesAndAttributesOfAllEntries) {
  constexpr uint64_t kByHandle = wire::kFattrFilehandle | wire::kFattrMode;
  EXPECT_EQ(BitsOfReaddir(other_, a_), kNames);
  EXPECT_EQ(BitsOfReaddir(other_, a_, kByHandle), kNames | kAttributes);
  EXPECT_EQ(BitsOfReaddir(other_, a_, kByHandle | wire::kFattrAcl), kNames | kAttributes);
  EXPECT_EQ(BitsOfReaddir(other_, a_, kByHandle | wire::kFattrNamedAttr), kNames | kAttributes);
  // Without a handle, the object of an entry is not known.
  EXPECT_EQ(BitsOfReaddir(other_, a_, wire::kFattrMode), kNames);
  EXPECT_EQ(BitsOfReaddir(other_, a_, wire::kFattrObjectType), kNames);
  {
    const Change change(*store_, a_, kPromisedNames);
    EXPECT_EQ(BitsOfReaddir(other_, a_, kByHandle), kAttributes);
  }
  const Change change(*store_, Handle({"a", "g"}), kPromisedAttributes);
  EXPECT_EQ(BitsOfReaddir(other_, a_, kByHandle), kNames);
  EXPECT_EQ(BitsOfReaddir(other_, a_, kByHandle | wire::kFattrNamedAttr), kNames);
}

TEST_F(AnswerPromisesTest, ReaddirPromisesEachEntry) {
  ASSERT_EQ(BitsOfReaddir(other_, a_, wire::kFattrFilehandle), kNames | kAttributes);
  for (const char* name : {"d", "g"}) {
    Promises::Changing changing(store_->promises(), root_.promisee);
    EXPECT_FALSE(changing.Begin(KeyOf(Handle({"a", name})), kPromisedAttributes)) << name;
  }
}

TEST_F(AnswerPromisesTest, ExportMayBeChangedByClientsOnly) {
  exports_[0].only_clients_change = true;
  Serve();
  EXPECT_EQ(BitsOfLookup(other_, a_, {"d"}), kNames | kOnlyClients);
  EXPECT_EQ(BitsOfGetattr(other_, d_), kAttributes | kOnlyClients);
  EXPECT_EQ(BitsOfReaddir(other_, d_, wire::kFattrFilehandle), kNames | kAttributes | kOnlyClients);
  EXPECT_EQ(BitsOfGetattr(other_, Handle({"deep", "b"})), kAttributes);
}

TEST_F(AnswerPromisesTest, DirectoriesAboveTheExportsArePromisedWithoutRecord) {
  const wire::FileHandle root = Handle({});
  const wire::FileHandle deep = Handle({"deep"});
  const uint64_t before = PromiseCount();
  EXPECT_EQ(BitsOfLookup(other_, root, {"deep"}), kNames | kOnlyClients);
  EXPECT_EQ(BitsOfLookup(other_, root, {"none"}, DafsStatus::kNoEnt), kNames | kOnlyClients);
  EXPECT_EQ(BitsOfLookup(other_, root, {"a"}), kNames);  // its path may lead elsewhere
  EXPECT_EQ(BitsOfGetattr(other_, deep), kAttributes | kOnlyClients);
  EXPECT_EQ(BitsOfReaddir(other_, deep), kNames | kOnlyClients);
  EXPECT_EQ(PromiseCount(), before);
  EXPECT_EQ(BitsOfReaddir(other_, deep, wire::kFattrFilehandle), kNames | kAttributes);
  EXPECT_EQ(PromiseCount(), before + 1);  // the root of the export b
}

}  // namespace
}  // namespace dafs::server
