#include "client/exchange/message_buffers.h"

#include <sys/mman.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "runtime/status_macros.h"

namespace dafs::client {

MessageBuffers::~MessageBuffers() {
  region_.reset();
  if (!memory_.empty()) munmap(memory_.data(), memory_.size());
}

absl::Status MessageBuffers::Map(dat::Domain& domain, size_t count, uint32_t send_bytes,
                                 uint32_t receive_bytes) {
  count_ = count;
  send_bytes_ = send_bytes;
  receive_bytes_ = receive_bytes;
  const size_t bytes = count * (size_t{send_bytes} + receive_bytes);
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) {
    return absl::ResourceExhaustedError(
        absl::StrCat("message buffers of ", bytes, " bytes: errno ", errno));
  }
  memory_ = {static_cast<std::byte*>(at), bytes};
  ASSIGN_OR_RETURN(region_, domain.Register(memory_, dat::Access::kLocal));
  return absl::OkStatus();
}

}  // namespace dafs::client
