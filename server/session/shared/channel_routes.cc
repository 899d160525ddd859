#include "server/session/shared/channel_routes.h"

#include <cstdint>

#include "wire/protocol/constants.h"
#include "wire/protocol/header.h"

namespace dafs::server {
namespace {

constexpr size_t kPrivateDataBytes = 16;

uint32_t BigEndian(std::span<const std::byte> bytes) {
  uint32_t value = 0;
  for (std::byte byte : bytes.first<4>()) value = value << 8 | static_cast<uint32_t>(byte);
  return value;
}

}  // namespace

std::optional<ChannelRoutes::Request> ChannelRoutes::Read(const std::string& host,
                                                          std::span<const std::byte> private_data) {
  if (private_data.size() < kPrivateDataBytes) return std::nullopt;
  uint32_t type = BigEndian(private_data.subspan(12));
  const uint32_t magic = BigEndian(private_data);
  if (magic == __builtin_bswap32(wire::kRequestMagic)) {
    type = __builtin_bswap32(type);
  } else if (magic != wire::kRequestMagic) {
    return std::nullopt;
  }
  Request request;
  request.session = host;
  request.session.append(reinterpret_cast<const char*>(&private_data[4]), 8);
  request.operation = type == wire::kChannelOperation;
  request.references = type == wire::kChannelReferences;
  return request;
}

void ChannelRoutes::Remember(const std::string& session, size_t worker) {
  if (!workers_.insert_or_assign(session, worker).second) return;
  oldest_.push_back(session);
  if (oldest_.size() <= kMost) return;
  workers_.erase(oldest_.front());
  oldest_.pop_front();
}

std::optional<size_t> ChannelRoutes::Find(const std::string& session) const {
  const auto at = workers_.find(session);
  if (at == workers_.end()) return std::nullopt;
  return at->second;
}

}  // namespace dafs::server
