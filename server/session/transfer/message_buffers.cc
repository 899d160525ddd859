#include "server/session/transfer/message_buffers.h"

#include <cstdlib>
#include <utility>

#include "runtime/status_macros.h"

namespace dafs::server {

absl::StatusOr<std::unique_ptr<MessageBuffer>> MessageBuffer::Create(dat::Domain& domain,
                                                                     size_t size_bytes) {
  // Messages are multiples of 8 bytes; cache line alignment separates adjacent buffers.
  auto* data = static_cast<std::byte*>(std::aligned_alloc(64, (size_bytes + 63) / 64 * 64));
  if (data == nullptr) return absl::ResourceExhaustedError("message buffer: out of memory");
  std::unique_ptr<MessageBuffer> buffer(new MessageBuffer(data, size_bytes));
  ASSIGN_OR_RETURN(buffer->region_, domain.Register(buffer->memory(), dat::Access::kLocal));
  return buffer;
}

MessageBuffer::~MessageBuffer() {
  region_.reset();
  std::free(data_);
}

absl::Status SendBuffers::Resize(dat::Domain& domain, size_t count, size_t size_bytes) {
  if (size_bytes != size_bytes_) {
    free_.clear();
    existing_ = 0;
    size_bytes_ = size_bytes;
  }
  count_ = count;
  while (existing_ > count_ && !free_.empty()) {
    free_.pop_back();
    --existing_;
  }
  while (existing_ < count_) {
    auto outgoing = std::make_unique<Outgoing>();
    ASSIGN_OR_RETURN(outgoing->buffer, MessageBuffer::Create(domain, size_bytes_));
    free_.push_back(std::move(outgoing));
    ++existing_;
  }
  return absl::OkStatus();
}

std::unique_ptr<Outgoing> SendBuffers::Take() {
  if (free_.empty()) return nullptr;
  std::unique_ptr<Outgoing> outgoing = std::move(free_.back());
  free_.pop_back();
  return outgoing;
}

void SendBuffers::Return(std::unique_ptr<Outgoing> outgoing) {
  if (outgoing->buffer->memory().size() != size_bytes_) return;
  if (existing_ > count_) {
    --existing_;
    return;
  }
  free_.push_back(std::move(outgoing));
}

}  // namespace dafs::server
