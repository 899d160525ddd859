// The private procedures on ranges of a file: ALLOCATE, SEEK, COPY_RANGE (wire/messages/ranges.h).
// Each of them may wait for the disk.
#include "server/procedures/handler.h"

namespace dafs::server {

constexpr Procedure kAllocateHandler = kModifiesInPool<&DataProcedures::Allocate>;
constexpr Procedure kSeekHandler = kInPool<&DataProcedures::Seek>;
constexpr Procedure kCopyRangeHandler = kModifiesInPool<&DataProcedures::CopyRange>;

}  // namespace dafs::server
