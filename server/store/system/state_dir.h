// The small files of the server's state directory: the key of the filehandles, the number of this
// server instance, and others. Files are 0600 and appear whole or not at all.
// Only one process at a time may use them; the program ensures this with a lock on the directory.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace dafs::server {

using HandleKey = std::array<uint8_t, 32>;

// Returns whether a server has had a filehandle key in `state_dir`. If so, its other files existed
// too, and a missing one was lost.
bool HasServed(const std::string& state_dir);

// Returns the key in `state_dir`/handle-key. At the first start, creates it from the kernel's
// random numbers. A new key invalidates all filehandles, so a server that has served does not
// create one. Errors, which name the remedy: kFailedPrecondition, kInternal.
absl::StatusOr<HandleKey> LoadOrCreateHandleKey(const std::string& state_dir);

// Returns a number larger than at any start before, at least 1. The number is recorded on stable
// storage first, with a checksum of `key`. State ids and write verifiers contain the number, so
// those of earlier instances are recognised (4.4.1.2, 6.5.38). If the record is missing or damaged,
// this is logged, and the number is random and larger than that of any server without such a loss.
// `has_served`: the result of HasServed before the key was loaded.
// Errors: kFailedPrecondition, also for a `key` that is not the recorded one; kInternal.
absl::StatusOr<uint32_t> NextInstance(const std::string& state_dir, const HandleKey& key,
                                      bool has_served);

// Returns the first `limit` + 1 bytes of `state_dir`/`name`. The extra byte shows that the file is
// longer than `limit`. Errors: kNotFound if there is no such file; kFailedPrecondition.
absl::StatusOr<std::string> ReadStateFile(const std::string& state_dir, const std::string& name,
                                          size_t limit);

// Writes `content` to a new file, flushes it, and renames it to `name`, replacing an older file.
// Errors: kFailedPrecondition.
absl::Status WriteStateFile(const std::string& state_dir, const std::string& name,
                            std::string_view content);

}  // namespace dafs::server
