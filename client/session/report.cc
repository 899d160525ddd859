#include "client/session/report.h"

namespace dafs::client {

ProcTotals& CallTotals::operator[](wire::Proc proc) {
  return by_proc[wire::RowOf(wire::InfoOf(proc))];
}

}  // namespace dafs::client
