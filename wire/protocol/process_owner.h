// Names for the owners of locks that show which owners are one process (private, R15). A process
// has one open owner for each file that it locks. The server needs to know which of them belong
// together to find deadlocks. Spec: WIRE 9.4 LOCK, 9.6.
// Pure functions.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace dafs::wire {

// Begins the name of such an owner. 16 bytes follow: the process, and a number that makes the name
// unique in its client.
inline constexpr std::string_view kProcessOwner = "process:";
inline constexpr size_t kProcessBytes = sizeof(uint64_t);
inline constexpr size_t kProcessOwnerBytes = kProcessOwner.size() + 2 * kProcessBytes;

inline std::string ProcessOwner(uint64_t process, uint64_t number) {
  std::string owner(kProcessOwnerBytes, '\0');
  std::memcpy(owner.data(), kProcessOwner.data(), kProcessOwner.size());
  std::memcpy(&owner[kProcessOwner.size()], &process, kProcessBytes);
  std::memcpy(&owner[kProcessOwner.size() + kProcessBytes], &number, kProcessBytes);
  return owner;
}

// The part of `owner` that the owners of one process of one client have in common. An owner with
// another name is a process of its own: the whole name.
inline std::string_view ProcessOf(std::string_view owner) {
  if (owner.size() != kProcessOwnerBytes || !owner.starts_with(kProcessOwner)) return owner;
  return owner.substr(0, kProcessOwner.size() + kProcessBytes);
}

}  // namespace dafs::wire
