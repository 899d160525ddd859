// A file of fixed size in the state directory, mapped into memory. What is stored there survives
// the process by itself, however it ends; Sync makes it survive the machine. Spec: ARCHITECTURE
// "Server" (state directory). Values in it are the caller's to order and publish.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace dafs::server {

class MappedFile {
 public:
  // Makes `path`, zeroed, with all of its blocks: no later store can fail for want of space.
  // kResourceExhausted: no room, no descriptor; kFailedPrecondition: anything else, in words.
  static absl::StatusOr<MappedFile> Create(const std::string& path, size_t size_bytes);
  // The file as an earlier process has left it. kNotFound; kDataLoss: not of this size, if
  // `size_bytes` is not 0, or empty: made and not finished. Other errors are as of Create, and say
  // nothing of what is in it.
  static absl::StatusOr<MappedFile> Open(const std::string& path, size_t size_bytes = 0);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<std::byte> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }

  // Writes the pages of `part` to the device and waits. False if that failed.
  bool Sync(std::span<const std::byte> part) const;

  // The same for the file's name and size.
  bool SyncName() const;

  // Takes the file's name away; the mapping stays.
  void Unlink();

 private:
  MappedFile(std::string path, std::byte* data, size_t size)
      : path_(std::move(path)), data_(data), size_(size) {}

  std::string path_;
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// The error of a start for which a file of an earlier instance cannot be opened. The file may be
// whole, so it is neither ignored nor replaced. `if_removed`: what removing it costs.
absl::Status CannotStartWithout(const absl::Status& opening, std::string_view if_removed);

}  // namespace dafs::server
