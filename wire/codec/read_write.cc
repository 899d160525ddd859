// Encode, decode and print for wire/messages/read_write.h.
#include "wire/codec/instantiate.h"

namespace dafs::wire {

DAFS_WIRE_INSTANTIATE(ReadInline)
DAFS_WIRE_INSTANTIATE(ReadDirect)
DAFS_WIRE_INSTANTIATE(WriteInline)
DAFS_WIRE_INSTANTIATE(WriteDirect)
DAFS_WIRE_INSTANTIATE(AppendInline)
DAFS_WIRE_INSTANTIATE(AppendDirect)
DAFS_WIRE_INSTANTIATE(Commit)
DAFS_WIRE_INSTANTIATE(CacheHint)

}  // namespace dafs::wire
