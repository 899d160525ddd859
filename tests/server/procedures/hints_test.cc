// CACHE_HINT, and hints in requests that move data.
#include <sys/mman.h>

#include "tests/server/server_fixture.h"
#include "wire/protocol/constants.h"

namespace dafs::server {
namespace {

class HintsTest : public ServerTest {
 protected:
  static constexpr size_t kSize = size_t{4} << 20;

  void Start() {
    WriteFile("a/f", Pattern(kSize));
    StartServer();
    client_ = Session();
    ActAsRoot(*client_);
    hint_.filehandle = LookUp(*client_, {"a", "f"});
  }

  // Returns the bytes of the file in the page cache, or 0 if the system does not report them.
  size_t Resident() const {
    const int fd = open(Path("a/f").c_str(), O_RDONLY | O_CLOEXEC);
    void* at = mmap(nullptr, kSize, PROT_READ, MAP_SHARED, fd, 0);
    std::vector<unsigned char> pages(kSize / 4096);
    size_t resident = 0;
    if (at != MAP_FAILED && mincore(at, kSize, pages.data()) == 0) {
      for (unsigned char page : pages) resident += (page & 1) * size_t{4096};
    }
    if (at != MAP_FAILED) munmap(at, kSize);
    close(fd);
    return resident;
  }
  // Drops the file from the page cache. Returns false if that is not possible.
  bool Drop() const {
    const int fd = open(Path("a/f").c_str(), O_RDWR | O_CLOEXEC);
    fsync(fd);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
    return Resident() == 0;
  }
  void AwaitResident(size_t bytes) const {
    const absl::Time deadline = Loop::Now() + kPatience;
    while (Resident() < bytes && Loop::Now() < deadline) sched_yield();
    EXPECT_GE(Resident(), bytes);
  }
  std::string Hint(wire::AccessPattern pattern, uint32_t cache_hint) {
    hint_.access_pattern = pattern;
    hint_.cache_hint = cache_hint;
    return client_->Call(hint_).name();
  }

  std::unique_ptr<RawClient> client_;
  wire::CacheHintArgs hint_;
};

// Shows DAFS-6.5.6-01, DAFS-6.5.6-04, DAFS-6.5.6-05.
TEST_F(HintsTest, PrefetchReadsTheRangeIntoTheCache) {
  Start();
  if (!Drop()) GTEST_SKIP() << "the page cache of " << base_ << " cannot be dropped";
  const uint32_t prefetch = wire::kCacheHintPrefetch;
  // No access is expected soon, or no prefetch is requested: the server ignores the hint.
  EXPECT_EQ(Hint(wire::AccessPattern::kNormal,
                 prefetch | wire::CacheHintRead(3) | wire::CacheHintWrite(2)),
            "DAFS_STATUS_OK");
  EXPECT_EQ(Hint(wire::AccessPattern::kNormal, wire::CacheHintRead(7)), "DAFS_STATUS_OK");
  EXPECT_EQ(Hint(wire::AccessPattern::kNormal, 0), "DAFS_STATUS_OK");
  EXPECT_EQ(Resident(), 0u);
  hint_.offset = size_t{1} << 20;
  hint_.count = 1 << 20;
  EXPECT_EQ(Hint(wire::AccessPattern::kNormal, prefetch | wire::CacheHintRead(6)),
            "DAFS_STATUS_OK");
  AwaitResident(size_t{1} << 20);
  EXPECT_LT(Resident(), kSize);
  hint_.offset = 0;
  hint_.count = 0;  // to the end of the file
  EXPECT_EQ(Hint(wire::AccessPattern::kWillNeed, 0), "DAFS_STATUS_OK");
  AwaitResident(kSize);
}

// The server drops data that the client no longer needs.
TEST_F(HintsTest, DataThatIsNotNeededLeavesTheCache) {
  Start();
  if (!Drop()) GTEST_SKIP() << "the page cache of " << base_ << " cannot be dropped";
  ReadFile("a/f");
  AwaitResident(kSize);
  EXPECT_EQ(Hint(wire::AccessPattern::kDontNeed, 0), "DAFS_STATUS_OK");
  const absl::Time deadline = Loop::Now() + kPatience;
  while (Resident() > 0 && Loop::Now() < deadline) sched_yield();
  EXPECT_EQ(Resident(), 0u);
}

// A hint never causes an error, except a prefetch of an object that cannot be prefetched.
TEST_F(HintsTest, RefusesOnlyAPrefetchOfANonFile) {
  Start();
  for (auto pattern : {wire::AccessPattern::kNormal, wire::AccessPattern::kRandom,
                       wire::AccessPattern::kSequential, wire::AccessPattern::kWillNeed,
                       wire::AccessPattern::kDontNeed}) {
    for (uint64_t offset : {uint64_t{0}, uint64_t{kSize}, ~uint64_t{0}}) {
      hint_.offset = offset;
      hint_.count = 0xffffffff;
      EXPECT_EQ(Hint(pattern, 0xffffffff), "DAFS_STATUS_OK");
    }
  }
  client_->cred_handle = wire::CredHandle();  // anonymous, without the right to read
  chmod(Path("a/f").c_str(), 0600);
  EXPECT_EQ(Hint(wire::AccessPattern::kSequential, wire::kCacheHintPrefetch), "DAFS_STATUS_OK");
  hint_.filehandle = Root(*client_);
  EXPECT_EQ(Hint(wire::AccessPattern::kRandom, wire::CacheHintRead(7)), "DAFS_STATUS_OK");
  EXPECT_EQ(Hint(wire::AccessPattern::kRandom, wire::kCacheHintPrefetch),
            "DAFSERR_PREFETCH_NOT_SUPPORTED");
  hint_.filehandle = LookUp(*client_, {"a"});
  EXPECT_EQ(Hint(wire::AccessPattern::kRandom, wire::kCacheHintPrefetch),
            "DAFSERR_PREFETCH_NOT_SUPPORTED");
  hint_.filehandle.fileid.bytes[1] ^= 0x10;
  EXPECT_EQ(Hint(wire::AccessPattern::kNormal, 0), "DAFSERR_BADHANDLE");
}

// Shows DAFS-6.5.6-02, DAFS-6.1.8-02 (server): the hint without weights is 0x01. Its weights count
// as 4, because lower ones would suppress the prefetch. A hint of 0 requests no prefetch.
TEST_F(HintsTest, HintWithoutWeightsExpectsAccess) {
  Start();
  if (!Drop()) GTEST_SKIP() << "the page cache of " << base_ << " cannot be dropped";
  constexpr uint32_t kPrefetch = 0x01;
  for (const uint32_t unlikely : {0x3u << 1 | 0x3u << 4, 0x1u << 1 | 0x1u << 4}) {
    EXPECT_EQ(Hint(wire::AccessPattern::kNormal, kPrefetch | unlikely), "DAFS_STATUS_OK");
  }
  EXPECT_EQ(Hint(wire::AccessPattern::kNormal, 0), "DAFS_STATUS_OK");
  EXPECT_EQ(Resident(), 0u);
  hint_.count = 1 << 20;
  const uint32_t hints[] = {kPrefetch, kPrefetch | 0x4 << 1 | 0x3 << 4, kPrefetch | 0x3 << 1,
                            kPrefetch | 0x3 << 1 | 0x7 << 4};
  for (const uint32_t hint : hints) {
    SCOPED_TRACE(hint);
    ASSERT_TRUE(Drop());
    EXPECT_EQ(Hint(wire::AccessPattern::kNormal, hint), "DAFS_STATUS_OK");
    AwaitResident(size_t{1} << 20);
  }
}

// Shows DAFS-6.5.6-07: a weight of 4 and above expects access, and one below does not.
TEST_F(HintsTest, WeightsRunFromOneToSeven) {
  Start();
  if (!Drop()) GTEST_SKIP() << "the page cache of " << base_ << " cannot be dropped";
  hint_.count = 1 << 20;
  for (uint32_t weight = 1; weight <= 7; ++weight) {
    for (const uint32_t shift : {1u, 4u}) {
      SCOPED_TRACE(testing::Message() << weight << " at bit " << shift);
      // The other weight, the lowest, does not expect access.
      const uint32_t other = shift == 1 ? 1u << 4 : 1u << 1;
      ASSERT_TRUE(Drop());
      EXPECT_EQ(Hint(wire::AccessPattern::kNormal, 0x01 | weight << shift | other),
                "DAFS_STATUS_OK");
      if (weight >= 4) AwaitResident(size_t{1} << 20);
      // This answer comes after the hint was applied.
      EXPECT_EQ(Hint(wire::AccessPattern::kNormal, 0), "DAFS_STATUS_OK");
      if (weight < 4) {
        EXPECT_EQ(Resident(), 0u);
      }
    }
  }
}

// Shows DAFS-6.5.6-03: only the data that was requested is read, and what the kernel reads ahead.
TEST_F(HintsTest, PrefetchBitOfAReadOrWriteIsIgnored) {
  options_.pool_threads = 1;
  WriteFile("a/g", Pattern(kSize));
  Start();
  if (!Drop()) GTEST_SKIP() << "the page cache of " << base_ << " cannot be dropped";
  EXPECT_EQ(Hint(wire::AccessPattern::kRandom, 0), "DAFS_STATUS_OK");  // without readahead
  const uint32_t hint = wire::kCacheHintPrefetch | wire::CacheHintRead(7) | wire::CacheHintWrite(7);
  wire::ReadInlineArgs read;
  read.filehandle = hint_.filehandle;
  read.byte_count = 4096;
  read.cache_hint = hint;
  EXPECT_EQ(client_->Call(read).name(), "DAFS_STATUS_OK");
  wire::WriteInlineArgs write;
  write.filehandle = hint_.filehandle;
  write.offset = size_t{1} << 20;
  write.byte_count = 4096;
  write.cache_hint = hint;
  const std::string data = Pattern(4096);
  EXPECT_EQ(client_->Call(write, std::as_bytes(std::span(data))).name(), "DAFS_STATUS_OK");
  // A prefetch of another file, by the only thread, would come later.
  wire::CacheHintArgs other;
  other.filehandle = LookUp(*client_, {"a", "g"});
  other.cache_hint = hint;
  EXPECT_EQ(client_->Call(other).name(), "DAFS_STATUS_OK");
  wire::CommitArgs commit;  // waits in the same pool
  commit.filehandle = other.filehandle;
  EXPECT_EQ(client_->Call(commit).name(), "DAFS_STATUS_OK");
  EXPECT_LT(Resident(), size_t{1} << 20);
}

// Shows DAFS-6.5.6-06: named attributes cannot be prefetched. They can be read and written, also
// with a hint that requests it.
TEST_F(HintsTest, PrefetchBitNeverFailsAReadOrWrite) {
  Start();
  wire::OpenattrArgs directory;
  directory.filehandle = hint_.filehandle;
  auto attributes = client_->Call(directory);
  ASSERT_EQ(attributes.name(), "DAFS_STATUS_OK");
  auto opened = client_->Call(OpenArgs(attributes.res.filehandle, "name", true));
  ASSERT_EQ(opened.name(), "DAFS_STATUS_OK");
  wire::WriteInlineArgs write;
  write.filehandle = opened.res.filehandle;
  write.state_id = opened.res.state_id;
  write.byte_count = 5;
  write.cache_hint = wire::kCacheHintPrefetch;
  const std::string data = "value";
  EXPECT_EQ(client_->Call(write, std::as_bytes(std::span(data))).name(), "DAFS_STATUS_OK");
  wire::ReadInlineArgs read;
  read.filehandle = write.filehandle;
  read.state_id = write.state_id;
  read.byte_count = 100;
  read.cache_hint = wire::kCacheHintPrefetch;
  auto got = client_->Call(read);
  EXPECT_EQ(got.name(), "DAFS_STATUS_OK");
  EXPECT_EQ(got.res.bytes_read, 5u);
  hint_.filehandle = write.filehandle;
  EXPECT_EQ(Hint(wire::AccessPattern::kNormal, wire::kCacheHintPrefetch),
            "DAFSERR_PREFETCH_NOT_SUPPORTED");
  EXPECT_EQ(Hint(wire::AccessPattern::kNormal, 0), "DAFS_STATUS_OK");
}

// Shows DAFS-4.2.4-03: with every pattern, from 0 to 4, and every weight.
TEST_F(HintsTest, HintsNeverChangeData) {
  Start();
  std::string expected = Pattern(kSize);
  for (uint32_t pattern = 0; pattern <= 4; ++pattern) {
    for (uint32_t weight = 0; weight <= 7; ++weight) {
      SCOPED_TRACE(pattern * 10 + weight);
      const uint32_t cache_hint = 0x01 | weight << 1 | (7 - weight) << 4;
      hint_.offset = (uint64_t{weight} << 19) % kSize;
      hint_.count = weight * 100000;
      EXPECT_EQ(Hint(static_cast<wire::AccessPattern>(pattern), cache_hint), "DAFS_STATUS_OK");
      wire::WriteInlineArgs write;
      write.filehandle = hint_.filehandle;
      write.offset = (pattern * 8 + weight) * 100000 + 4000;
      write.byte_count = 300;
      write.cache_hint = cache_hint;
      const std::string data(300, static_cast<char>(pattern * 8 + weight));
      expected.replace(write.offset, data.size(), data);
      EXPECT_EQ(client_->Call(write, std::as_bytes(std::span(data))).name(), "DAFS_STATUS_OK");
      wire::ReadInlineArgs read;
      read.filehandle = hint_.filehandle;
      read.offset = write.offset - 100;
      read.byte_count = 500;
      read.cache_hint = cache_hint;
      auto got = client_->Call(read);
      ASSERT_EQ(got.name(), "DAFS_STATUS_OK");
      auto bytes = wire::FindInlineData(got.message, got.res);
      ASSERT_TRUE(bytes.ok());
      EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size()),
                expected.substr(read.offset, 500));
    }
  }
  EXPECT_EQ(Hint(static_cast<wire::AccessPattern>(5), 0), "DAFSERR_INVAL");
  EXPECT_TRUE(ReadFile("a/f") == expected);
}

// Shows DAFS-4.2.4-02, DAFS-3.2.3.2.2-02 (APPEND, direct), R65: hints with I/O, including prefetch
// and undefined bits.
TEST_F(HintsTest, HintsWithDataAreAccepted) {
  Start();
  DirectMemory memory = client_->NewMemory(8192, dat::Access::kRemoteBoth);
  const auto buffer = memory.At(0, 4096);
  const uint32_t all = 0xffffffff;
  wire::ReadInlineArgs read;
  read.filehandle = hint_.filehandle;
  read.byte_count = 100;
  read.cache_hint = all;
  EXPECT_EQ(client_->Call(read).name(), "DAFS_STATUS_OK");
  wire::ReadDirectArgs read_direct;
  read_direct.filehandle = hint_.filehandle;
  read_direct.byte_count = 100;
  read_direct.cache_hint = all;
  read_direct.read_data_buffers = {buffer};
  EXPECT_EQ(client_->Call(read_direct).name(), "DAFS_STATUS_OK");
  const std::string data = "xyz";
  wire::WriteInlineArgs write;
  write.filehandle = hint_.filehandle;
  write.byte_count = 3;
  write.cache_hint = all;
  EXPECT_EQ(client_->Call(write, std::as_bytes(std::span(data))).name(), "DAFS_STATUS_OK");
  wire::WriteDirectArgs write_direct;
  write_direct.filehandle = hint_.filehandle;
  write_direct.byte_count = 3;
  write_direct.cache_hint = all;
  write_direct.write_data_buffers = {buffer};
  EXPECT_EQ(client_->Call(write_direct).name(), "DAFS_STATUS_OK");
  wire::AppendInlineArgs append;
  append.filehandle = hint_.filehandle;
  append.byte_count = 3;
  append.cache_hint = all;
  append.stable_how = wire::StableHow::kDataSync;
  EXPECT_EQ(client_->Call(append, std::as_bytes(std::span(data))).name(), "DAFS_STATUS_OK");
  wire::AppendDirectArgs append_direct;
  append_direct.filehandle = hint_.filehandle;
  append_direct.byte_count = 3;
  append_direct.cache_hint = all;
  append_direct.stable_how = wire::StableHow::kDataSync;
  append_direct.write_data_buffer = buffer;
  EXPECT_EQ(client_->Call(append_direct).name(), "DAFS_STATUS_OK");
  wire::BatchSubmitArgs batch;
  batch.synchronous = true;
  batch.requests.resize(1);
  batch.requests[0].filehandle = hint_.filehandle;
  batch.requests[0].chunks = {{.offset = 0, .byte_count = 4096, .cache_hint = all}};
  batch.requests[0].request_buffers = {buffer};
  auto reply = client_->Call(batch);
  ASSERT_EQ(reply.name(), "DAFS_STATUS_OK");
  EXPECT_EQ(reply.res.completions[0].status, 0u);
}

}  // namespace
}  // namespace dafs::server
