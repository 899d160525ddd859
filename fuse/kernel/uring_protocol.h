// FUSE over io_uring as in Linux 6.14 and later (protocol 7.42): the structures of <linux/fuse.h>,
// which Debian 12 (7.38) and 13 (7.41) lack. Source: include/uapi/linux/fuse.h of Linux 6.14,
// fuse_uring_ent_in_out to fuse_uring_cmd_req. Sizes and offsets are ABI.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dafs::fuse {

// INIT flag FUSE_OVER_IO_URING. The kernel offers it if /sys/module/fuse/parameters/enable_uring is
// set.
inline constexpr uint64_t kInitOverIoUring = uint64_t{1} << 41;

// fuse_uring_cmd: the command in an SQE of IORING_OP_URING_CMD on /dev/fuse.
inline constexpr uint32_t kUringRegister = 1;        // FUSE_IO_URING_CMD_REGISTER
inline constexpr uint32_t kUringCommitAndFetch = 2;  // FUSE_IO_URING_CMD_COMMIT_AND_FETCH

inline constexpr size_t kUringHeaderBytes = 128;     // FUSE_URING_IN_OUT_HEADER_SZ
inline constexpr size_t kUringOperationBytes = 128;  // FUSE_URING_OP_IN_OUT_SZ

struct UringEntInOut {  // fuse_uring_ent_in_out
  uint64_t flags;
  uint64_t commit_id;   // names the request in the answer
  uint32_t payload_sz;  // bytes used of the payload buffer
  uint32_t padding;
  uint64_t reserved;
};
static_assert(sizeof(UringEntInOut) == 32);

// fuse_uring_req_header: the first buffer of an entry; the second is its payload.
struct UringReqHeader {
  std::byte in_out[kUringHeaderBytes];    // fuse_in_header; fuse_out_header in the answer
  std::byte op_in[kUringOperationBytes];  // the structure of the request, if it has one
  UringEntInOut ring_ent_in_out;
};
static_assert(sizeof(UringReqHeader) == 288);

// fuse_uring_cmd_req: in the command area of an SQE of 128 bytes.
struct UringCmdReq {
  uint64_t flags;
  uint64_t commit_id;
  uint16_t qid;
  uint8_t padding[6];
};
static_assert(sizeof(UringCmdReq) == 24);

}  // namespace dafs::fuse
