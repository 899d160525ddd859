// Warm reads and writes allocate nothing, from the operation down to the transport. Counts the
// allocations of this thread only, not those of the server's threads.
#include <array>
#include <cstdlib>
#include <new>

#include "client/library/async_io.h"
#include "tests/client/server_fixture.h"

#if defined(__GNUC__) && !defined(__clang__)
// g++ inlines the two replacements below and then reports malloc and free as a mismatched pair.
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
#endif

namespace {
thread_local uint64_t allocations = 0;
}

void* operator new(size_t size) {
  ++allocations;
  void* memory = std::malloc(size);
  if (memory == nullptr) std::abort();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace dafs::client {
namespace {

class AllocationTest : public ServerTest {};

TEST_F(AllocationTest, ReadsAndWritesAllocateNothingOnceWarm) {
  StartClient(Options());
  MakeLocal("file", std::string(1 << 20, 'x'));
  OpenRequest request = ToOpen("file");
  absl::StatusOr<OpenFile> file = Await(files_->opens().Open(root_user_, request));
  ASSERT_STATUS_OK(file);
  for (uint32_t size : {4096u, 65536u}) {
    uint64_t warm = 0;
    for (int i = 0; i < 700; ++i) {
      if (i == 200) warm = allocations;
      BufferLease target = files_->buffers().TryAcquire(BufferUse::kReadTarget, size);
      absl::StatusOr<ReadResult> read =
          Await(files_->data().Read(root_user_, file->handle, file->state_id, 0, target, size));
      ASSERT_STATUS_OK(read);
      BufferLease source = files_->buffers().TryAcquire(BufferUse::kWriteSource, size);
      absl::StatusOr<WriteResult> written =
          Await(files_->data().Write(root_user_, file->handle, file->state_id, 0, source, 0, size,
                                     wire::StableHow::kUnstable));
      ASSERT_STATUS_OK(written);
    }
    // A thousand operations. The session's tick sets a timer once a second.
    EXPECT_LT(allocations - warm, 50u) << size;
  }
  absl::Status closed = Await(files_->opens().Close(file->state_id));
  EXPECT_STATUS_OK(closed);
}

// The same for asynchronous I/O, with registered and unregistered memory.
TEST_F(AllocationTest, AsynchronousIoAllocatesNothingOnceWarm) {
  StartClient(Options());
  MakeLocal("file", std::string(1 << 20, 'x'));
  absl::StatusOr<Node> node = Await(files_->names().Lookup(root_user_, root_.handle, "file"));
  ASSERT_STATUS_OK(node);
  {
    AsyncIo io(*files_, root_user_);
    CompletionGroup group(*loop_);
    std::vector<std::byte> memory(32 * 16384);
    auto handle = files_->buffers().user_memory().Register(memory, MemoryAccess::kBoth);
    ASSERT_STATUS_OK(handle);
    IoFile file;
    file.name = "file";
    file.handle = node->handle;
    std::array<IoCompletion, 32> ends;
    uint64_t warm = 0;
    for (int round = 0; round < 70; ++round) {
      if (round == 20) warm = allocations;
      for (uint64_t i = 0; i < 32; ++i) {
        const FileRange range{i * 16384, 16384};
        const MemorySegment segment{memory.data() + i * 16384, 16384,
                                    i % 4 == 0 ? MemoryHandle() : *handle};
        const bool write = i % 2 == 0;
        ASSERT_STATUS_OK(write ? io.Write(file, {&segment, 1}, {&range, 1}, group)
                               : io.Read(file, {&segment, 1}, {&range, 1}, group));
      }
      for (size_t ended = 0; ended < 32;) {
        const size_t count = group.Wait(ends);
        for (size_t i = 0; i < count; ++i) ASSERT_STATUS_OK(ends[i].status);
        ended += count;
      }
    }
    EXPECT_LT(allocations - warm, 50u);  // of 1,600
  }
}

}  // namespace
}  // namespace dafs::client
