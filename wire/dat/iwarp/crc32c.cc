#include "wire/dat/iwarp/crc32c.h"

#include <array>
#include <bit>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#elif defined(__aarch64__)
#include <arm_acle.h>
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace dafs::dat::iwarp {
namespace {

constexpr uint32_t kPolynomial = 0x82f63b78;  // 0x1edc6f41, bits reflected

constexpr std::array<std::array<uint32_t, 256>, 8> MakeTables() {
  std::array<std::array<uint32_t, 256>, 8> tables = {};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    tables[0][i] = crc;
  }
  for (size_t i = 0; i < 256; ++i) {
    for (size_t t = 1; t < 8; ++t) {
      const uint32_t before = tables[t - 1][i];
      tables[t][i] = (before >> 8) ^ tables[0][before & 0xff];
    }
  }
  return tables;
}
constexpr std::array<std::array<uint32_t, 256>, 8> kTables = MakeTables();

uint64_t Load64(const std::byte* from) {
  uint64_t value;
  std::memcpy(&value, from, sizeof(value));
  if constexpr (std::endian::native == std::endian::big) value = __builtin_bswap64(value);
  return value;
}

#if defined(__x86_64__) || defined(__aarch64__)
// The instruction has a latency of three cycles and a throughput of one, so three lanes run in
// parallel. To join them, the first two are advanced over zeros in place of the lanes that follow
// them.
constexpr size_t kLaneBytes = 1024;

using Matrix = std::array<uint32_t, 32>;  // over GF(2): column i is the image of bit i

constexpr uint32_t Apply(const Matrix& matrix, uint32_t vector) {
  uint32_t sum = 0;
  for (size_t i = 0; vector != 0; vector >>= 1, ++i) sum ^= (vector & 1) != 0 ? matrix[i] : 0;
  return sum;
}

// One table per byte of the CRC, for appending kLaneBytes zeros.
constexpr std::array<std::array<uint32_t, 256>, 4> MakeLaneShift() {
  Matrix shift = {};  // one zero bit
  shift[0] = kPolynomial;
  for (size_t i = 1; i < 32; ++i) shift[i] = uint32_t{1} << (i - 1);
  for (size_t bits = 1; bits < kLaneBytes * 8; bits *= 2) {
    Matrix twice = {};
    for (size_t i = 0; i < 32; ++i) twice[i] = Apply(shift, shift[i]);
    shift = twice;
  }
  std::array<std::array<uint32_t, 256>, 4> tables = {};
  for (size_t byte = 0; byte < 4; ++byte) {
    for (uint32_t i = 0; i < 256; ++i) tables[byte][i] = Apply(shift, i << (8 * byte));
  }
  return tables;
}
constexpr std::array<std::array<uint32_t, 256>, 4> kLaneShift = MakeLaneShift();

uint32_t ShiftLane(uint32_t crc) {
  return kLaneShift[0][crc & 0xff] ^ kLaneShift[1][(crc >> 8) & 0xff] ^
         kLaneShift[2][(crc >> 16) & 0xff] ^ kLaneShift[3][crc >> 24];
}
#endif

#if defined(__x86_64__)
#define DAFS_CRC_TARGET __attribute__((target("sse4.2")))
DAFS_CRC_TARGET inline uint32_t Step64(uint32_t crc, uint64_t value) {
  return static_cast<uint32_t>(_mm_crc32_u64(crc, value));
}
DAFS_CRC_TARGET inline uint32_t Step8(uint32_t crc, std::byte value) {
  return _mm_crc32_u8(crc, std::to_integer<uint8_t>(value));
}
bool DetectHardware() { return __builtin_cpu_supports("sse4.2") != 0; }
#elif defined(__aarch64__)
#define DAFS_CRC_TARGET __attribute__((target("+crc")))
DAFS_CRC_TARGET inline uint32_t Step64(uint32_t crc, uint64_t value) {
  return __crc32cd(crc, value);
}
DAFS_CRC_TARGET inline uint32_t Step8(uint32_t crc, std::byte value) {
  return __crc32cb(crc, std::to_integer<uint8_t>(value));
}
bool DetectHardware() { return (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0; }
#else
bool DetectHardware() { return false; }
#endif

#if defined(__x86_64__) || defined(__aarch64__)
DAFS_CRC_TARGET uint32_t ExtendByInstruction(uint32_t crc, std::span<const std::byte> data) {
  uint32_t state = ~crc;
  const std::byte* at = data.data();
  size_t left = data.size();
  while (left >= 3 * kLaneBytes) {
    uint32_t second = 0;
    uint32_t third = 0;
    for (size_t i = 0; i < kLaneBytes; i += 8) {
      state = Step64(state, Load64(at + i));
      second = Step64(second, Load64(at + kLaneBytes + i));
      third = Step64(third, Load64(at + 2 * kLaneBytes + i));
    }
    state = ShiftLane(ShiftLane(state) ^ second) ^ third;
    at += 3 * kLaneBytes;
    left -= 3 * kLaneBytes;
  }
  for (; left >= 8; at += 8, left -= 8) state = Step64(state, Load64(at));
  for (; left > 0; ++at, --left) state = Step8(state, *at);
  return ~state;
}
#endif

}  // namespace

uint32_t ExtendCrc32cByTable(uint32_t crc, std::span<const std::byte> data) {
  uint32_t state = ~crc;
  const std::byte* at = data.data();
  size_t left = data.size();
  for (; left >= 8; at += 8, left -= 8) {
    const uint64_t mixed = Load64(at) ^ state;
    uint32_t next = 0;
    for (size_t i = 0; i < 8; ++i) next ^= kTables[7 - i][(mixed >> (8 * i)) & 0xff];
    state = next;
  }
  for (; left > 0; ++at, --left) {
    state = (state >> 8) ^ kTables[0][(state ^ std::to_integer<uint32_t>(*at)) & 0xff];
  }
  return ~state;
}

bool HasHardwareCrc32c() {
  static const bool has = DetectHardware();
  return has;
}

uint32_t ExtendCrc32c(uint32_t crc, std::span<const std::byte> data) {
#if defined(__x86_64__) || defined(__aarch64__)
  if (HasHardwareCrc32c()) return ExtendByInstruction(crc, data);
#endif
  return ExtendCrc32cByTable(crc, data);
}

}  // namespace dafs::dat::iwarp
