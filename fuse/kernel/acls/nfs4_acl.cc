#include "fuse/kernel/acls/nfs4_acl.h"

#include <endian.h>

#include <cstdint>
#include <cstring>

#include "fuse/kernel/request_reader.h"
#include "wire/protocol/constants.h"
#include "wire/protocol/limits.h"

namespace dafs::fuse {
namespace {

// The only number in which the two protocols differ (DAFS-6.1.4-07).
constexpr uint32_t kNfsAlarm = 3;

size_t Padding(size_t bytes) { return (4 - bytes % 4) % 4; }

void Put(std::string& out, uint32_t value) {
  const uint32_t word = htobe32(value);
  out.append(reinterpret_cast<const char*>(&word), sizeof word);
}

}  // namespace

std::string EncodeNfs4Acl(const std::vector<wire::Ace>& acl) {
  std::string out;
  Put(out, static_cast<uint32_t>(acl.size()));
  for (const wire::Ace& ace : acl) {
    Put(out, ace.type == wire::kAceAlarm ? kNfsAlarm : ace.type);
    Put(out, ace.flag);
    Put(out, ace.access_mask);
    Put(out, static_cast<uint32_t>(ace.who.size()));
    out += ace.who;
    out.append(Padding(ace.who.size()), '\0');
  }
  return out;
}

std::optional<std::vector<wire::Ace>> DecodeNfs4Acl(std::span<const std::byte> value) {
  RequestReader in(value);
  const auto take = [&] { return be32toh(in.Take<uint32_t>()); };
  const uint32_t count = take();
  if (!in.ok() || count > wire::kAclMax) return std::nullopt;
  std::vector<wire::Ace> acl(count);
  for (wire::Ace& ace : acl) {
    ace.type = take();
    if (ace.type == kNfsAlarm) ace.type = wire::kAceAlarm;
    ace.flag = take();
    ace.access_mask = take();
    const uint32_t length = take();
    if (length == 0 || length > wire::kWhoBound.max_bytes) return std::nullopt;
    const std::span<const std::byte> who = in.TakeBytes(length);
    in.TakeBytes(Padding(length));
    if (!in.ok()) return std::nullopt;
    ace.who.assign(reinterpret_cast<const char*>(who.data()), who.size());
  }
  return in.ok() && in.rest().empty() ? std::optional(std::move(acl)) : std::nullopt;
}

}  // namespace dafs::fuse
