// A file of fixed size in the state directory, mapped into memory. Its content survives any end of
// the process; after Sync it survives a crash of the machine. Spec: docs/decisions.md,
// Server. The caller orders and publishes the values in it.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace dafs::server {

class MappedFile {
 public:
  // Creates `path`, zeroed, and allocates all of its blocks, so no later store fails for lack of
  // space. kResourceExhausted: no space, no descriptor; kFailedPrecondition: any other error.
  static absl::StatusOr<MappedFile> Create(const std::string& path, size_t size_bytes);
  // Opens the file of an earlier process. kNotFound; kDataLoss: the size is not `size_bytes`, if
  // that is not 0, or the file is empty because its creation was not finished. Other errors are as
  // for Create; after these the content may be intact.
  static absl::StatusOr<MappedFile> Open(const std::string& path, size_t size_bytes = 0);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<std::byte> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }

  // Writes the pages of `part` to the device and waits. False if that failed.
  bool Sync(std::span<const std::byte> part) const;

  // Writes the file's name and size to the device and waits. False if that failed.
  bool SyncName() const;

  // Removes the file's name; the mapping stays.
  void Unlink();

 private:
  MappedFile(std::string path, std::byte* data, size_t size)
      : path_(std::move(path)), data_(data), size_(size) {}

  std::string path_;
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// Returns the error of a server start that cannot open a file of an earlier instance. The file may
// be intact, so the server neither ignores nor replaces it. `if_removed`: the cost of removing it.
absl::Status CannotStartWithout(const absl::Status& opening, std::string_view if_removed);

}  // namespace dafs::server
