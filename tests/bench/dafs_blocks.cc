// Reads and writes with libdafs: memory is registered once, transfers are direct, and all use one
// completion group.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "client/library/library.h"
#include "runtime/log/log.h"
#include "tests/bench/block_io.h"
#include "wire/dat/iwarp/iwarp.h"
#include "wire/dat/verbs/verbs.h"

namespace dafs::bench {
namespace {

using namespace client;

bool Good(const absl::Status& status) {
  if (!status.ok()) std::fprintf(stderr, "libdafs: %s\n", std::string(status.message()).c_str());
  return status.ok();
}

class DafsBlocks : public BlockIo {
 public:
  ~DafsBlocks() override {
    files_.clear();
    session_.reset();
    std::free(memory_);
  }

  bool Connect(const char* target) {
    LogToStderr("bench", Severity::kWarning);
    LibraryOptions options;
    constexpr std::string_view kRdma = "rdma:";
    constexpr std::string_view kReferences = "references:";  // of an export with a cache
    by_reference_ = std::string_view(target).starts_with(kReferences);
    if (by_reference_) target += kReferences.size();
    const bool rdma = std::string_view(target).starts_with(kRdma);
    if (rdma) target += kRdma.size();
    const char* slash = std::strchr(target, '/');
    options.server = std::string(target, slash == nullptr ? target + std::strlen(target) : slash);
    options.export_path = slash == nullptr ? "/" : slash;
    provider_ = rdma ? dat::NewVerbsProvider() : dat::NewIwarpProvider();
    options.providers = {provider_.get()};
    options.client.inline_read_bytes = 0;  // all reads by RDMA, as in the paper
    options.client.buffers.bytes = size_t{8} << 20;
    if (by_reference_) options.client.reference_directory_bytes = size_t{16} << 20;
    options.keep_leases = false;
    auto loop = Loop::Create();
    if (!Good(loop.status())) return false;
    loop_ = *std::move(loop);
    auto library = Library::Open(std::move(options));
    if (!Good(library.status())) return false;
    library_ = *std::move(library);
    auto session = ExportSession::Open(*library_, *loop_, Identity{0, 0, {}});
    if (!Good(session.status())) return false;
    session_ = *std::move(session);
    group_ = std::make_unique<CompletionGroup>(*loop_);
    return true;
  }

  char* Memory(size_t bytes) override {
    bytes = (bytes + 4095) / 4096 * 4096;
    memory_ = static_cast<std::byte*>(std::aligned_alloc(4096, bytes));
    std::memset(memory_, 0, bytes);
    auto handle = session_->Register({memory_, bytes}, MemoryAccess::kBoth);
    if (!Good(handle.status())) return nullptr;
    handle_ = *handle;
    return reinterpret_cast<char*>(memory_);
  }
  int Open(const char* path, bool write) override {
    FileOptions options;
    options.write = options.create = options.truncate = write;
    auto file = session_->OpenFile(path, options);
    if (!Good(file.status())) return -1;
    files_.push_back(*std::move(file));
    if (by_reference_ && !write && !Fetch(*files_.back())) return -1;
    return static_cast<int>(files_.size() - 1);
  }
  bool Close(int file) override { return Good(session_->CloseFile(At(file))); }
  int64_t Size(int file) override {
    auto attributes = session_->Stat(At(file));
    return Good(attributes.status()) ? static_cast<int64_t>(attributes->object_size) : -1;
  }
  bool Read(int file, uint32_t slot, char* into, size_t size, uint64_t at) override {
    const MemorySegment segment = Segment(into, size);
    const FileRange range{at, segment.size};
    IoOptions options;
    options.cookie = slot;
    return Good(
        session_->io().Read(At(file), {&segment, 1}, {&range, 1}, *group_, options).status());
  }
  bool Write(int file, uint32_t slot, const char* from, size_t size, uint64_t at) override {
    const MemorySegment segment = Segment(from, size);
    const FileRange range{at, segment.size};
    IoOptions options;
    options.cookie = slot;
    return Good(
        session_->io().Write(At(file), {&segment, 1}, {&range, 1}, *group_, options).status());
  }
  size_t Finish(std::span<BlockDone> done, bool wait) override {
    std::array<IoCompletion, kMostBlocks> ends;
    const std::span<IoCompletion> out = std::span(ends).first(std::min(done.size(), ends.size()));
    const size_t count = wait ? group_->Wait(out) : group_->Poll(out);
    for (size_t i = 0; i < count; ++i) {
      done[i] = {static_cast<uint32_t>(ends[i].cookie), ends[i].count, Good(ends[i].status)};
    }
    return count;
  }

 private:
  // Gets the references to the whole file, which the kernel of the server must have in memory.
  bool Fetch(IoFile& file) {
    const absl::Time end = absl::Now() + absl::Seconds(5);
    while (!session_->references()->ready() && absl::Now() < end) {
      loop_->RunOnce(absl::Milliseconds(10));
    }
    auto attributes = session_->Stat(file);
    return Good(attributes.status()) &&
           Good(session_->FetchReferences(file, 0, attributes->object_size).status());
  }
  IoFile& At(int file) { return *files_[static_cast<size_t>(file)]; }
  MemorySegment Segment(const char* at, size_t size) const {
    return {memory_ + (at - reinterpret_cast<const char*>(memory_)), static_cast<uint32_t>(size),
            handle_};
  }

  std::unique_ptr<dat::Provider> provider_;
  std::unique_ptr<Loop> loop_;
  std::unique_ptr<Library> library_;
  std::unique_ptr<ExportSession> session_;
  std::unique_ptr<CompletionGroup> group_;
  std::vector<std::unique_ptr<IoFile>> files_;
  bool by_reference_ = false;
  std::byte* memory_ = nullptr;
  MemoryHandle handle_;
};

}  // namespace

std::unique_ptr<BlockIo> MakeBlockIo(const char* target, const BlockIoOptions&) {
  auto blocks = std::make_unique<DafsBlocks>();
  if (!blocks->Connect(target)) return nullptr;
  return blocks;
}

}  // namespace dafs::bench
