// The small files of the server's state directory: the key of the filehandles, the number of this
// server instance, and others. Files are 0600 and appear whole or not at all.
// To be used by one process at a time; that is the program's business (a lock on the directory).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace dafs::server {

using HandleKey = std::array<uint8_t, 32>;

// Whether a server has had a filehandle key in `state_dir`. If so, its other files have been there
// too, and one that is missing was lost.
bool HasServed(const std::string& state_dir);

// The key in `state_dir`/handle-key, made from the kernel's random numbers at the first start.
// Without the file all filehandles are invalid, so a server that has served does not make another.
// Errors, which name the remedy: kFailedPrecondition, kInternal.
absl::StatusOr<HandleKey> LoadOrCreateHandleKey(const std::string& state_dir);

// A number larger than at any start before, at least 1; recorded on stable storage before it is
// returned, with a check sum of `key`. State ids and write verifiers carry the number, so that
// those of earlier instances are recognised (4.4.1.2, 6.5.38). If the record is missing or damaged,
// which is logged, the number is random and larger than that of any server without such a loss.
// `has_served`: as of before the key was loaded.
// Errors: kFailedPrecondition, also for a `key` that is not the recorded one; kInternal.
absl::StatusOr<uint32_t> NextInstance(const std::string& state_dir, const HandleKey& key,
                                      bool has_served);

// The content of `state_dir`/`name`, at most `limit` bytes and one, by which a longer file is
// known. Errors: kNotFound if there is no such file; kFailedPrecondition.
absl::StatusOr<std::string> ReadStateFile(const std::string& state_dir, const std::string& name,
                                          size_t limit);

// Writes `content` to a new file, flushes it and gives it its name, replacing an older one.
// Errors: kFailedPrecondition.
absl::Status WriteStateFile(const std::string& state_dir, const std::string& name,
                            std::string_view content);

}  // namespace dafs::server
