// The version of the client's program, in the upper 24 bits of `wanted` of EXTENSIONS. The server
// shows it to its administrator and does nothing else with it. A server that does not know it
// ignores these bits, as any that it does not grant. Spec: WIRE 9.5.
#pragma once

#include <cstdint>

namespace dafs::wire {

// 8 bits each; 0.0.0: not known.
struct ProgramVersion {
  uint8_t major = 0, minor = 0, patch = 0;

  friend bool operator==(const ProgramVersion&, const ProgramVersion&) = default;
};

inline constexpr int kProgramVersionShift = 40;

constexpr uint64_t BitsOf(const ProgramVersion& version) {
  const uint64_t number =
      uint64_t{version.major} << 16 | uint64_t{version.minor} << 8 | uint64_t{version.patch};
  return number << kProgramVersionShift;
}

constexpr ProgramVersion ProgramVersionOf(uint64_t wanted) {
  const uint64_t number = wanted >> kProgramVersionShift;
  return {static_cast<uint8_t>(number >> 16), static_cast<uint8_t>(number >> 8),
          static_cast<uint8_t>(number)};
}

}  // namespace dafs::wire
