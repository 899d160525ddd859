#include "fuse/kernel/acls/acl_in_mode.h"

#include <array>
#include <string_view>

#include "wire/protocol/constants.h"

namespace dafs::fuse {
namespace {

// In the order of their bits in a mode, from the highest.
constexpr std::array<std::string_view, 3> kWho = {"OWNER@", "GROUP@", "EVERYONE@"};

bool Allows(uint32_t mask, uint32_t rwx) {
  constexpr uint32_t kWrite = wire::kAceWriteData | wire::kAceAppendData;
  return (mask & wire::kAceReadData) == ((rwx & 4) != 0 ? wire::kAceReadData : 0) &&
         (mask & kWrite) == ((rwx & 2) != 0 ? kWrite : 0) &&
         (mask & wire::kAceExecute) == ((rwx & 1) != 0 ? wire::kAceExecute : 0);
}

}  // namespace

bool IsAclInMode(std::span<const wire::Ace> acl, uint32_t mode) {
  unsigned allowed = 0;  // a bit for each of kWho
  for (const wire::Ace& ace : acl) {
    unsigned who = 0;
    while (who < kWho.size() && ace.who != kWho[who]) ++who;
    if (who == kWho.size() || (ace.flag & ~wire::kAceIdentifierGroup) != 0) return false;
    if (ace.type == wire::kAceDenied) continue;
    if (ace.type != wire::kAceAllowed || (allowed & 1u << who) != 0 ||
        !Allows(ace.access_mask, mode >> (6 - 3 * who) & 7)) {
      return false;
    }
    allowed |= 1u << who;
  }
  return allowed == 7;
}

}  // namespace dafs::fuse
