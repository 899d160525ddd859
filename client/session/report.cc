#include "client/session/report.h"

namespace dafs::client {
namespace {

// Maps a procedure number to its row, so that counting a call is one lookup.
constexpr uint32_t kDense = 161;  // numbers are 100 .. 160, and private ones from 1000
constexpr auto kRowOf = [] {
  std::array<uint8_t, kDense> rows{};
  for (size_t i = 0; i < wire::kProcedures.size(); ++i) {
    auto number = static_cast<uint32_t>(wire::kProcedures[i].number);
    if (number < kDense) rows[number] = static_cast<uint8_t>(i);
  }
  return rows;
}();

}  // namespace

ProcTotals& CallTotals::operator[](wire::Proc proc) {
  auto number = static_cast<uint32_t>(proc);
  if (number < kDense) return by_proc[kRowOf[number]];
  return by_proc[static_cast<size_t>(&wire::InfoOf(proc) - wire::kProcedures.data())];
}

}  // namespace dafs::client
