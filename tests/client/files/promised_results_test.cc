// Which results carry a promise of the server, and since when it counts. Spec: WIRE 9.6.
#include "client/state/promises.h"
#include "tests/client/scripted_fixture.h"

namespace dafs::client::testing {
namespace {

using wire::DafsStatus;
using wire::Proc;

class PromisedResultsTest : public ScriptedTest {
 protected:
  // The server promises names in the replies to `proc` only, and attributes wherever it returns
  // some.
  void Promise(Proc proc) {
    server_.spec_cond = [proc](const Request& request) -> uint16_t {
      switch (request.header.procedure) {
        case Proc::kGetattrInline:
          return wire::kSpcondAttributes;
        default:
          return request.header.procedure == proc
                     ? uint16_t{wire::kSpcondNames | wire::kSpcondOnlyClients}
                     : uint16_t{0};
      }
    };
  }
  void Begin() {
    client_->promises().Ask();
    EXPECT_TRUE(client_->promises().Begin(absl::Seconds(10)));
  }
  bool IsGood(const client::Promise& promise, const wire::FileHandle& object) {
    return client_->promises().IsGood(promise, object);
  }
  void RefuseOne(Proc proc, DafsStatus status) {
    server_.script = [proc, status](ScriptedConnection& c, const Request& request) {
      if (request.header.procedure != proc) return false;
      c.Refuse(request, status);
      return true;
    };
  }

  const wire::FileHandle dir_{};
};

TEST_F(PromisedResultsTest, EachResultHasThePromiseOfItsOwnResponse) {
  Promise(Proc::kLookup);
  MakeFiles();
  Begin();
  absl::StatusOr<Node> node = Await(files_->names().Lookup(user_, dir_, "name"));
  ASSERT_OK(node);
  EXPECT_TRUE(IsGood(node->names, dir_));
  EXPECT_TRUE(node->names.only_clients);
  EXPECT_TRUE(IsGood(node->attributes.promise, node->handle));
  EXPECT_FALSE(node->attributes.promise.only_clients);
  EXPECT_EQ(client_->promises().caching(), Promises::Caching::kBounded);  // that came last

  // CREATE promises nothing here; the attributes come from the GETATTRs after it.
  Attributes after;
  node = Await(files_->names().MakeDirectory(user_, dir_, "name", wire::FileAttributes(), &after));
  ASSERT_OK(node);
  EXPECT_FALSE(node->names);
  EXPECT_TRUE(node->attributes.promise);
  EXPECT_TRUE(IsGood(after.promise, dir_));

  absl::StatusOr<Attributes> attributes =
      Await(files_->attributes().GetAttributes(user_, node->handle));
  ASSERT_OK(attributes);
  EXPECT_TRUE(IsGood(attributes->promise, node->handle));
}

TEST_F(PromisedResultsTest, ChangesOfNamesCarryThePromiseOfTheirDirectories) {
  MakeFiles();
  Begin();
  Promise(Proc::kCreate);
  absl::StatusOr<Node> node =
      Await(files_->names().MakeDirectory(user_, dir_, "name", wire::FileAttributes()));
  ASSERT_OK(node);
  EXPECT_TRUE(IsGood(node->names, dir_));
  Promise(Proc::kLink);
  node = Await(files_->names().Link(user_, node->handle, dir_, "other"));
  ASSERT_OK(node);
  EXPECT_TRUE(IsGood(node->names, dir_));
  Promise(Proc::kOpen);
  OpenRequest request;
  request.name = "f";
  request.owner = "owner";
  absl::StatusOr<OpenFile> file = Await(files_->opens().Open(user_, request));
  ASSERT_OK(file);
  EXPECT_TRUE(IsGood(file->names, dir_));
  EXPECT_TRUE(file->attributes.promise);

  client::Promise names;
  Promise(Proc::kRemove);
  EXPECT_OK(Await(files_->names().Remove(user_, dir_, "name", nullptr, &names)));
  EXPECT_TRUE(IsGood(names, dir_));
  names = {};
  Promise(Proc::kRename);
  EXPECT_OK(Await(files_->names().Rename(user_, dir_, "a", dir_, "b", nullptr, nullptr, &names)));
  EXPECT_TRUE(IsGood(names, dir_));
}

TEST_F(PromisedResultsTest, AbsentNameHasThePromiseOfTheDirectory) {
  Promise(Proc::kLookup);
  MakeFiles();
  Begin();
  RefuseOne(Proc::kLookup, DafsStatus::kNoEnt);
  client::Promise absent;
  const absl::Status status = Await(files_->names().Lookup(user_, dir_, "name", &absent)).status();
  EXPECT_EQ(wire::DafsFromStatus(status), DafsStatus::kNoEnt);
  EXPECT_TRUE(IsGood(absent, dir_));
  // Other errors say nothing about the name.
  absent = {};
  RefuseOne(Proc::kLookup, DafsStatus::kAcces);
  EXPECT_FALSE(Await(files_->names().Lookup(user_, dir_, "name", &absent)).ok());
  EXPECT_FALSE(absent);
}

TEST_F(PromisedResultsTest, ListingHasBothPromises) {
  server_.spec_cond = [](const Request& request) -> uint16_t {
    return request.header.procedure == Proc::kReaddirDirect
               ? uint16_t{wire::kSpcondNames | wire::kSpcondAttributes}
               : uint16_t{0};
  };
  MakeFiles();
  Begin();
  BufferLease lease = files_->buffers().TryAcquire(BufferUse::kReadTarget, 65536);
  absl::StatusOr<DirectoryPage> page = Await(files_->directories().ReadDirectory(
      user_, dir_, 0, wire::Verifier(), 65536, kStatAttributes, lease));
  ASSERT_OK(page);
  EXPECT_TRUE(IsGood(page->names, dir_));
  EXPECT_TRUE(page->attributes);
}

TEST_F(PromisedResultsTest, ResponseOlderThanAnAnnouncedChangeGivesNoPromise) {
  Promise(Proc::kLookup);
  MakeFiles();
  Begin();
  server_.script = [this](ScriptedConnection& c, const Request& request) {
    if (request.header.procedure != Proc::kLookup) return false;
    server_.Serve(c, request);
    client_->promises().Changed(dir_);  // the announcement is received before the response
    return true;
  };
  absl::StatusOr<Node> node = Await(files_->names().Lookup(user_, dir_, "name"));
  ASSERT_OK(node);
  EXPECT_TRUE(node->names);
  EXPECT_FALSE(IsGood(node->names, dir_));
  server_.script = nullptr;
  node = Await(files_->names().Lookup(user_, dir_, "name"));
  ASSERT_OK(node);
  EXPECT_TRUE(IsGood(node->names, dir_));
}

TEST_F(PromisedResultsTest, RequestIssuedAgainCountsFromTheLastTime) {
  Promise(Proc::kLookup);
  MakeFiles();
  Begin();
  server_.script = [this, done = false](ScriptedConnection& c, const Request& request) mutable {
    if (done || request.header.procedure != Proc::kLookup) return false;
    done = true;
    c.CloseAfterAnswers();
    client_->promises().Changed(dir_);
    return true;
  };
  absl::StatusOr<Node> node = Await(files_->names().Lookup(user_, dir_, "name"));
  ASSERT_OK(node);
  EXPECT_EQ(server_.connections_made, 2);
  EXPECT_TRUE(IsGood(node->names, dir_));
}

TEST_F(PromisedResultsTest, FetchedResponseGivesNoPromise) {
  Promise(Proc::kCreate);
  MakeFiles();
  Begin();
  server_.script = [this, done = false](ScriptedConnection& c, const Request& request) mutable {
    if (done || request.header.procedure != Proc::kCreate) return false;
    done = true;
    server_.Serve(c, request);
    c.Close(absl::OkStatus());
    return true;
  };
  absl::StatusOr<Node> node =
      Await(files_->names().MakeDirectory(user_, dir_, "name", wire::FileAttributes()));
  ASSERT_OK(node);
  EXPECT_EQ(files_->Report().fetched, 1u);
  EXPECT_FALSE(node->names);
}

TEST_F(PromisedResultsTest, VoidEndsAllPromisesBeforeTheResponseIsDelivered) {
  Promise(Proc::kLookup);
  MakeFiles();
  Begin();
  absl::StatusOr<Node> node = Await(files_->names().Lookup(user_, dir_, "name"));
  ASSERT_OK(node);
  server_.spec_cond = [](const Request&) {
    return uint16_t{wire::kSpcondVoid | wire::kSpcondNames | wire::kSpcondAttributes};
  };
  int voids = 0;
  client_->promises().OnVoid([&voids] { ++voids; });
  absl::StatusOr<Attributes> attributes =
      Await(files_->attributes().GetAttributes(user_, node->handle));
  ASSERT_OK(attributes);
  EXPECT_EQ(voids, 1);
  EXPECT_FALSE(IsGood(attributes->promise, node->handle));
  EXPECT_FALSE(IsGood(node->names, dir_));
  EXPECT_FALSE(client_->promises().active());
}

}  // namespace
}  // namespace dafs::client::testing
