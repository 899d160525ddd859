#include "client/exchange/in_flight.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/exchange/call.h"
#include "runtime/loop/loop.h"
#include "wire/messages/messages.h"

namespace dafs::client {
namespace {

using wire::DafsStatus;

// Memory that a child shares with its parent.
class SharedMemory {
 public:
  SharedMemory()
      : memory_(mmap(nullptr, InFlightTable::kBytes, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {}
  ~SharedMemory() { munmap(memory_, InFlightTable::kBytes); }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  std::span<std::byte> bytes() const {
    return {static_cast<std::byte*>(memory_), InFlightTable::kBytes};
  }

 private:
  void* memory_;
};

// The table of one process and the entries of its worker.
struct Process {
  Process() = default;
  explicit Process(std::span<const std::byte> left) { table.TakeLeft(left); }
  SharedMemory memory;
  InFlightTable table{memory.bytes()};
  InFlightEntries entries{table};
};

struct Removal : Call<wire::RemoveArgs> {
  explicit Removal(uint8_t directory = 1) { args.filehandle.fileid.bytes[0] = directory; }
  bool Begin(InFlightOperation& operation) {
    CallBase* const chain[] = {this};
    return operation.Begin(chain);
  }
  void Send(InFlightOperation& operation, uint16_t seq_number) {
    xid.session_id.bytes[0] = 7;
    xid.stream_id = 3;
    xid.seq_number = seq_number;
    xid.cached = true;
    operation.Sent(*this);
  }
};

TEST(InFlightTest, RequestThatWasSentIsFound) {
  Process killed;
  InFlightOperation before(&killed.entries, 5, false);
  Removal sent;
  EXPECT_FALSE(sent.Begin(before));
  sent.Send(before, 9);

  Process next(killed.memory.bytes());
  InFlightOperation after(&next.entries, 5, true);
  Removal again;
  ASSERT_TRUE(again.Begin(after));
  EXPECT_FALSE(after.contradicts());
  EXPECT_TRUE(again.is_out());
  EXPECT_FALSE(again.was_answered);
  EXPECT_EQ(again.xid.session_id, sent.xid.session_id);
  EXPECT_EQ(again.xid.stream_id, 3);
  EXPECT_EQ(again.xid.seq_number, 9);
  EXPECT_TRUE(again.xid.cached);
}

TEST(InFlightTest, RequestThatWasNotSentIsNotFound) {
  Process killed;
  InFlightOperation before(&killed.entries, 5, false);
  Removal begun;
  begun.Begin(before);

  Process next(killed.memory.bytes());
  EXPECT_TRUE(next.table.KnowsLeft(5));
  InFlightOperation after(&next.entries, 5, true);
  EXPECT_FALSE(Removal().Begin(after));
  InFlightOperation other(&next.entries, 6, true);
  EXPECT_FALSE(Removal().Begin(other));
}

TEST(InFlightTest, RequestsOfAnOperationThatDoesNotBeginAgainAreTaken) {
  Process killed;
  InFlightOperation before(&killed.entries, 5, false);
  InFlightOperation begun_again(&killed.entries, 7, false);
  Removal sent, other;
  sent.Begin(before);
  sent.Send(before, 9);
  other.Begin(begun_again);

  Process next(killed.memory.bytes());
  const InFlightOperation again(&next.entries, 7, true);
  EXPECT_EQ(next.table.Left(), std::vector<uint64_t>{5});
  InFlightOperation dropped(&next.entries, 5, true);
  Call<wire::LinkArgs> link;
  EXPECT_FALSE(dropped.TakeSent(link));
  Removal taken;
  ASSERT_TRUE(dropped.TakeSent(taken));
  EXPECT_TRUE(taken.is_out());
  EXPECT_EQ(taken.xid.seq_number, 9);
  EXPECT_FALSE(dropped.TakeSent(taken));
  EXPECT_TRUE(next.table.Left().empty());
}

// An operation may also open files for others: a lock on an open file, the value of an attribute.
TEST(InFlightTest, OnlyTheOpensOfTheGivenOwnerAreTaken) {
  Process killed;
  InFlightOperation before(&killed.entries, 5, false);
  Call<wire::OpenArgs> sent;
  sent.args.owner = "of another";
  CallBase* const chain[] = {&sent};
  before.Begin(chain);
  before.Sent(sent);

  Process next(killed.memory.bytes());
  InFlightOperation dropped(&next.entries, 5, true);
  Call<wire::OpenArgs> open;
  open.args.owner = "of the request";
  EXPECT_FALSE(dropped.TakeSent(open));
  open.args.owner = "of another";
  EXPECT_TRUE(dropped.TakeSent(open));
}

TEST(InFlightTest, AnsweredOperationIsForgotten) {
  Process killed;
  InFlightOperation before(&killed.entries, 5, false);
  Removal sent;
  sent.Begin(before);
  sent.Send(before, 9);
  before.End();

  Process next(killed.memory.bytes());
  InFlightOperation after(&next.entries, 5, true);
  EXPECT_FALSE(Removal().Begin(after));
}

TEST(InFlightTest, SecondKillFindsTheSame) {
  Process first;
  InFlightOperation before(&first.entries, 5, false);
  Removal sent;
  sent.Begin(before);
  sent.Send(before, 9);

  Process second(first.memory.bytes());
  Process third(second.memory.bytes());  // killed before the kernel sent the operation again
  InFlightOperation again(&third.entries, 5, true);
  Removal found;
  ASSERT_TRUE(found.Begin(again));
  found.Send(again, 10);

  Process fourth(third.memory.bytes());
  InFlightOperation last(&fourth.entries, 5, true);
  Removal latest;
  ASSERT_TRUE(latest.Begin(last));
  EXPECT_EQ(latest.xid.seq_number, 10);
}

// A chain of two: a delegation is returned, and something is removed.
struct ReturnAndRemoval {
  Call<wire::DelegreturnArgs> give_back;
  Removal removal;
  void BeginAndSend(InFlightOperation& operation) {
    CallBase* const chain[] = {&give_back, &removal};
    operation.Begin(chain);
    give_back.xid = removal.xid;
    operation.Sent(give_back);
    removal.Send(operation, 9);
  }
};

// The next process has no delegation to return, so that its chain is another one.
TEST(InFlightTest, ChangeAfterARefusedReturnOfADelegationIsMadeAgain) {
  Process killed;
  InFlightOperation before(&killed.entries, 5, false);
  ReturnAndRemoval sent;
  sent.BeginAndSend(before);
  const std::vector<std::byte> refusal(64);
  before.Answered(sent.give_back, refusal, wire::ByteOrder::kLittle, DafsStatus::kBadStateId);
  before.Answered(sent.removal, refusal, wire::ByteOrder::kLittle, DafsStatus::kChainBroken);

  Process next(killed.memory.bytes());
  InFlightOperation after(&next.entries, 5, true);
  Removal again;
  EXPECT_FALSE(again.Begin(after));
  EXPECT_FALSE(after.contradicts());
}

// Killed between two answers of a chain.
TEST(InFlightTest, MembersAfterARefusedOneWereNotExecuted) {
  Process killed;
  InFlightOperation before(&killed.entries, 5, false);
  ReturnAndRemoval sent;
  sent.BeginAndSend(before);
  before.Answered(sent.give_back, std::vector<std::byte>(64), wire::ByteOrder::kLittle,
                  DafsStatus::kGrace);

  Process next(killed.memory.bytes());
  InFlightOperation after(&next.entries, 5, true);
  ReturnAndRemoval again;
  CallBase* const chain[] = {&again.give_back, &again.removal};
  EXPECT_TRUE(after.Begin(chain));
  EXPECT_FALSE(after.contradicts());
  EXPECT_EQ(again.give_back.status, DafsStatus::kGrace);
  EXPECT_FALSE(again.removal.is_out());
}

// A server in its grace period answers each try.
TEST(InFlightTest, ManyRefusalsLeaveRoomForTheAnswer) {
  Process killed;
  InFlightOperation before(&killed.entries, 5, false);
  Removal sent;
  sent.Begin(before);
  const std::vector<std::byte> refusal(64);
  for (uint16_t number = 1; number <= 100; ++number) {
    sent.Send(before, number);
    before.Answered(sent, refusal, wire::ByteOrder::kLittle, DafsStatus::kGrace);
  }
  Process waiting(killed.memory.bytes());
  InFlightOperation refused(&waiting.entries, 5, true);
  Removal found;
  ASSERT_TRUE(found.Begin(refused));
  EXPECT_TRUE(found.answered);
  EXPECT_EQ(found.status, DafsStatus::kGrace);
}

// The order of the requests of an operation is always the same.
TEST(InFlightTest, RequestOfAnotherFileIsNoneOfTheOperation) {
  Process killed;
  InFlightOperation before(&killed.entries, 5, false);
  Removal sent;
  sent.Begin(before);
  sent.Send(before, 9);

  Process next(killed.memory.bytes());
  InFlightOperation after(&next.entries, 5, true);
  Removal other(2);
  EXPECT_TRUE(other.Begin(after));
  EXPECT_TRUE(after.contradicts());
}

TEST(InFlightTest, OperationWithMoreRequestsThanRecordsIsNotRepeated) {
  Process killed;
  InFlightOperation before(&killed.entries, 5, false);
  for (uint16_t i = 0; i <= InFlightTable::kRecords; ++i) {
    Removal one;
    one.Begin(before);
    one.Send(before, i);
  }

  Process next(killed.memory.bytes());
  InFlightOperation after(&next.entries, 5, true);
  Removal again;
  EXPECT_TRUE(again.Begin(after));
  EXPECT_TRUE(after.contradicts());
}

TEST(InFlightTest, OperationWithoutAnEntryIsUnknown) {
  Process killed;
  std::vector<std::unique_ptr<InFlightOperation>> operations;
  for (uint64_t i = 1; i <= InFlightTable::kEntries + 1; ++i) {
    operations.push_back(std::make_unique<InFlightOperation>(&killed.entries, i, false));
    Removal().Begin(*operations.back());
  }
  Process next(killed.memory.bytes());
  EXPECT_TRUE(next.table.KnowsLeft(InFlightTable::kEntries));
  EXPECT_FALSE(next.table.KnowsLeft(InFlightTable::kEntries + 1));

  operations.pop_back();
  EXPECT_TRUE(Process(killed.memory.bytes()).table.KnowsLeft(InFlightTable::kEntries + 1));
  operations.clear();
  InFlightOperation reuses(&killed.entries, 9999, false);
  Removal sent;
  sent.Begin(reuses);
  sent.Send(reuses, 1);
  Process last(killed.memory.bytes());
  InFlightOperation again(&last.entries, 9999, true);
  EXPECT_TRUE(Removal().Begin(again));
}

TEST(InFlightTest, WritesAreNotRecorded) {
  Process process;
  InFlightOperation operation(&process.entries, 5, false);
  Call<wire::WriteInlineArgs> write;
  CallBase* const chain[] = {&write};
  operation.Begin(chain);
  EXPECT_EQ(write.in_flight, nullptr);
  EXPECT_EQ(process.entries.used(), 0u);
}

// CLOSE sets the value of an extended attribute.
TEST(InFlightTest, RequestsThatCompleteAChangeAreRecorded) {
  Process process;
  InFlightOperation operation(&process.entries, 5, false);
  Call<wire::OpenArgs> open;
  Call<wire::WriteInlineArgs> write;
  Call<wire::CloseArgs> close;
  Call<wire::GetattrInlineArgs> stat;
  CallBase* const chain[] = {&open, &write, &close, &stat};
  operation.Begin(chain);
  EXPECT_EQ(open.in_flight, &operation);
  EXPECT_EQ(write.in_flight, &operation);
  EXPECT_EQ(close.in_flight, &operation);
  EXPECT_EQ(stat.in_flight, nullptr);
}

TEST(InFlightTest, DamagedRecordIsNotTrusted) {
  Process killed;
  InFlightOperation before(&killed.entries, 5, false);
  Removal sent;
  sent.Begin(before);
  sent.Send(before, 9);
  const std::vector<std::byte> good(killed.memory.bytes().begin(), killed.memory.bytes().end());
  for (size_t at = 0; at < sizeof(InFlightTable::Record); ++at) {
    std::vector<std::byte> bad = good;
    bad[InFlightTable::kEntryBytes + 16 + at] ^= std::byte{0x10};
    Process next;
    next.table.TakeLeft(bad);
    InFlightOperation after(&next.entries, 5, true);
    Removal again;
    ASSERT_TRUE(again.Begin(after)) << at;
    // `answer` is not under the checksum: the response has its own.
    const bool in_answer = at >= 8 && at < 16;
    EXPECT_NE(after.contradicts(), in_answer) << at;
  }
}

TEST(InFlightTest, ArbitraryBytesAreRead) {
  std::mt19937 dice(1);
  for (int round = 0; round < 40; ++round) {
    Process killed;
    InFlightOperation before(&killed.entries, 5, false);
    Removal sent;
    sent.Begin(before);
    sent.Send(before, 9);
    std::vector<std::byte> bytes(killed.memory.bytes().begin(), killed.memory.bytes().end());
    for (int i = 0; i < 40; ++i) {
      bytes[InFlightTable::kEntryBytes + 8 + dice() % 200] = static_cast<std::byte>(dice());
    }
    Process next;
    next.table.TakeLeft(bytes);
    InFlightOperation after(&next.entries, 5, true);
    Removal again;
    again.Begin(after);
    again.Send(after, 1);
    after.Answered(again, bytes, wire::ByteOrder::kLittle, DafsStatus::kOk);
  }
  Process cut;
  cut.table.TakeLeft(std::vector<std::byte>(100));
  EXPECT_FALSE(cut.table.KnowsLeft(5));
}

// The operation of the first entry; 0: none.
uint64_t NumberIn(const Process& process) {
  uint64_t number = 0;
  std::memcpy(&number, process.memory.bytes().data() + InFlightTable::kEntryBytes, 8);
  return number;
}

// Whenever the process is killed, what it has left is whole.
TEST(InFlightTest, KilledProcessLeavesWholeRecords) {
  std::mt19937 dice(2);
  int left = 0;
  for (int round = 0; round < 20; ++round) {
    Process killed;
    const pid_t child = fork();
    if (child == 0) {
      const std::vector<std::byte> response(200, std::byte{1});
      for (uint64_t number = 1;; ++number) {
        InFlightOperation operation(&killed.entries, number, false);
        for (uint16_t i = 0; i < 3; ++i) {
          Removal one;
          one.Begin(operation);
          one.Send(operation, i);
          operation.Answered(one, response, wire::ByteOrder::kLittle, DafsStatus::kNoEnt);
        }
      }
    }
    ASSERT_GT(child, 0);
    const absl::Time deadline = Loop::Now() + absl::Seconds(30);
    while (NumberIn(killed) == 0 && Loop::Now() < deadline) sched_yield();  // it has begun
    usleep(static_cast<useconds_t>(dice() % 3000));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);

    Process next(killed.memory.bytes());
    const uint64_t number = NumberIn(killed);
    if (number == 0) continue;
    ++left;
    InFlightOperation after(&next.entries, number, true);
    bool ended = false;  // the requests were sent one after the other
    for (int i = 0; i < 3; ++i) {
      Removal again;
      const bool found = again.Begin(after);
      ASSERT_FALSE(after.contradicts());
      EXPECT_FALSE(found && ended);
      ended = !found;
    }
  }
  EXPECT_GT(left, 0);
}

}  // namespace
}  // namespace dafs::client
