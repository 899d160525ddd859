// The real server and a client of it that reads and writes asynchronously.
#pragma once

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "client/library/async_io.h"
#include "tests/client/server_fixture.h"

namespace dafs::client {

// Page-aligned memory of the application.
class Pages {
 public:
  explicit Pages(size_t bytes)
      : bytes_(bytes), data_(static_cast<std::byte*>(std::aligned_alloc(4096, bytes))) {
    std::memset(data_, 0, bytes);
  }
  ~Pages() { std::free(data_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  std::byte* data() { return data_; }
  std::span<std::byte> all() { return {data_, bytes_}; }
  std::string Text(size_t at, size_t size) const {
    return {reinterpret_cast<const char*>(data_) + at, size};
  }

 private:
  const size_t bytes_;
  std::byte* const data_;
};

inline std::string RandomText(size_t bytes, uint64_t seed) {
  std::mt19937_64 dice(seed);
  std::string text(bytes, '\0');
  for (char& c : text) c = static_cast<char>(dice());
  return text;
}

class AsyncTest : public ServerTest {
 protected:
  ClientOptions Options() {
    ClientOptions options = ServerTest::Options();
    options.windows = windows_;
    return options;
  }
  void StartIo(ClientOptions options, uint32_t most_out = AsyncIo::kDefaultMostOut) {
    StartClient(std::move(options));
    io_ = std::make_unique<AsyncIo>(*files_, root_user_, most_out);
    group_ = std::make_unique<CompletionGroup>(*loop_);
  }
  void StopIo() {
    if (files_ != nullptr) files_->Shutdown();
    io_.reset();
    group_.reset();
    StopClient();
  }
  void TearDown() override {
    StopIo();
    ServerTest::TearDown();
  }

  // Creates a file with `content` in the export and opens it.
  std::unique_ptr<IoFile> OpenIo(const std::string& name, const std::string& content) {
    MakeLocal(name, content);
    OpenRequest request = ToOpen(name, "owner of " + name);
    absl::StatusOr<OpenFile> open = Await(files_->opens().Open(root_user_, request));
    EXPECT_STATUS_OK(open);
    auto file = std::make_unique<IoFile>();
    file->name = name;
    if (open.ok()) {
      file->handle = open->handle;
      file->state_id = open->state_id;
    }
    return file;
  }
  void CloseIo(const IoFile& file) {
    absl::Status closed = Await(files_->opens().Close(file.state_id));
    EXPECT_STATUS_OK(closed);
  }
  MemoryHandle Register(Pages& pages, MemoryAccess access = MemoryAccess::kBoth) {
    auto handle = files_->buffers().user_memory().Register(pages.all(), access);
    EXPECT_STATUS_OK(handle);
    return handle.ok() ? *handle : MemoryHandle();
  }
  absl::StatusOr<IoId> Read(IoFile& file, const MemorySegment& into, uint64_t offset,
                            uint64_t cookie = 0) {
    const FileRange range{offset, into.size};
    IoOptions options;
    options.cookie = cookie;
    return io_->Read(file, {&into, 1}, {&range, 1}, *group_, options);
  }
  absl::StatusOr<IoId> Write(IoFile& file, const MemorySegment& from, uint64_t offset,
                             uint64_t cookie = 0) {
    const FileRange range{offset, from.size};
    IoOptions options;
    options.cookie = cookie;
    return io_->Write(file, {&from, 1}, {&range, 1}, *group_, options);
  }
  // Waits for the next completion of the group and returns it.
  IoCompletion Next() {
    IoCompletion completion;
    EXPECT_EQ(group_->Wait({&completion, 1}, absl::Seconds(30)), 1u);
    return completion;
  }

  Windows windows_ = Windows::kOff;
  std::unique_ptr<AsyncIo> io_;
  std::unique_ptr<CompletionGroup> group_;
};

inline std::string NameOf(Windows windows) {
  return windows == Windows::kOff ? "Plain" : "Windows";
}

}  // namespace dafs::client
