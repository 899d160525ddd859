#include "server/store/attributes/acl_mapping.h"

#include <algorithm>
#include <array>
#include <climits>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "wire/protocol/constants.h"

namespace dafs::server {
namespace {

using wire::DafsStatus;

constexpr uint32_t kRead = wire::kAceReadData;
constexpr uint32_t kReadToo = wire::kAceReadNamedAttrs;
constexpr uint32_t kWrite = wire::kAceWriteData | wire::kAceAppendData;
constexpr uint32_t kWriteToo = wire::kAceWriteNamedAttrs;
constexpr uint32_t kEverybodys =
    wire::kAceReadAttributes | wire::kAceReadAcl | wire::kAceSynchronize;
constexpr uint32_t kOwners = wire::kAceWriteAttributes | wire::kAceWriteAcl;
constexpr uint32_t kInherit = wire::kAceFileInherit | wire::kAceDirectoryInherit;
constexpr uint32_t kFlagsKnown = kInherit | wire::kAceInheritOnly | wire::kAceIdentifierGroup;
constexpr uint8_t kAclAll = kAclRead | kAclWrite | kAclExecute;

uint32_t WriteBits(bool directory) { return kWrite | (directory ? wire::kAceDeleteChild : 0); }

// ---- From POSIX ------------------------------------------------------------------------------

std::string WhoOf(const PosixAcl::Entry& entry) {
  switch (entry.tag) {
    case AclTag::kUserObj:
      return "OWNER@";
    case AclTag::kGroupObj:
      return "GROUP@";
    case AclTag::kUser:
    case AclTag::kGroup:
      return absl::StrCat(entry.id);
    default:
      return "EVERYONE@";
  }
}

class AceWriter {
 public:
  AceWriter(bool directory, uint32_t flags, std::vector<wire::Ace>& aces)
      : directory_(directory), flags_(flags), aces_(aces) {}

  void Allow(const PosixAcl::Entry& entry, uint8_t perm) {
    uint32_t mask = MaskOf(perm) | kEverybodys;
    if (perm & kAclRead) mask |= kReadToo;
    if (perm & kAclWrite) mask |= kWriteToo;
    if (entry.tag == AclTag::kUserObj) mask |= kOwners;
    Add(wire::kAceAllowed, entry, mask);
  }
  void Deny(const PosixAcl::Entry& entry, uint8_t perm) {
    if (perm != 0) Add(wire::kAceDenied, entry, MaskOf(perm));
  }

 private:
  uint32_t MaskOf(uint8_t perm) const {
    uint32_t mask = 0;
    if (perm & kAclRead) mask |= kRead;
    if (perm & kAclWrite) mask |= WriteBits(directory_);
    if (perm & kAclExecute) mask |= wire::kAceExecute;
    return mask;
  }
  void Add(uint32_t type, const PosixAcl::Entry& entry, uint32_t mask) {
    const bool group = entry.tag == AclTag::kGroupObj || entry.tag == AclTag::kGroup;
    aces_.push_back({type, flags_ | (group ? wire::kAceIdentifierGroup : 0), mask, WhoOf(entry)});
  }

  const bool directory_;
  const uint32_t flags_;
  std::vector<wire::Ace>& aces_;
};

// The entries of one ACL by kind, and the effective rights of each kind.
struct Parts {
  explicit Parts(const PosixAcl& acl) {
    for (const PosixAcl::Entry& entry : acl.entries) {
      if (entry.tag != AclTag::kMask) continue;
      mask = entry.perm;
      has_mask = true;
    }
    for (PosixAcl::Entry entry : acl.entries) {
      const bool masked = entry.tag != AclTag::kUserObj && entry.tag != AclTag::kOther;
      if (masked) entry.perm &= mask;
      switch (entry.tag) {
        case AclTag::kUserObj:
          owner = entry;
          break;
        case AclTag::kUser:
          users.push_back(entry);
          all_users |= entry.perm;
          break;
        case AclTag::kGroupObj:
        case AclTag::kGroup:
          groups.push_back(entry);
          all_groups |= entry.perm;
          break;
        case AclTag::kOther:
          other = entry;
          break;
        case AclTag::kMask:
          break;
      }
    }
  }

  // The ACL has a mask but no named entries.
  bool only_mask() const { return has_mask && users.empty() && groups.size() == 1; }

  uint8_t mask = kAclAll;
  bool has_mask = false;
  PosixAcl::Entry owner, other;
  std::vector<PosixAcl::Entry> users, groups;  // `groups` includes the owning group
  uint8_t all_users = 0, all_groups = 0;
};

// A DENY entry covers the rights that its entry lacks and a later entry would give to the same
// users.
void WriteAcl(const PosixAcl& acl, AceWriter writer) {
  const Parts parts(acl);
  const auto lacks = [](const PosixAcl::Entry& entry, unsigned later) {
    return static_cast<uint8_t>(~entry.perm & later & kAclAll);
  };
  const unsigned after_users = unsigned{parts.all_groups} | parts.other.perm;
  writer.Deny(parts.owner, lacks(parts.owner, parts.all_users | after_users));
  writer.Allow(parts.owner, parts.owner.perm);
  for (const PosixAcl::Entry& user : parts.users) {
    writer.Deny(user, lacks(user, after_users));
    writer.Allow(user, user.perm);
  }
  // A user may be in several groups, so all ALLOW entries of groups precede their DENY entries.
  for (const PosixAcl::Entry& group : parts.groups) writer.Allow(group, group.perm);
  if (parts.only_mask()) writer.Allow(parts.groups.front(), parts.groups.front().perm);
  for (const PosixAcl::Entry& group : parts.groups) {
    writer.Deny(group, lacks(group, parts.other.perm));
  }
  writer.Allow(parts.other, parts.other.perm);
}

// ---- To POSIX --------------------------------------------------------------------------------

// The user, group or class of an ACE. Named users and groups have an id.
struct Principal {
  AclTag tag = AclTag::kOther;
  uint32_t id = 0;
  friend bool operator==(const Principal&, const Principal&) = default;

  bool is_user() const { return tag == AclTag::kUserObj || tag == AclTag::kUser; }
};

bool ParsePrincipal(const wire::Ace& ace, Principal* principal) {
  const bool group = (ace.flag & wire::kAceIdentifierGroup) != 0;
  if (ace.who == "OWNER@" || ace.who == "EVERYONE@") {
    principal->tag = ace.who == "OWNER@" ? AclTag::kUserObj : AclTag::kOther;
    return !group;
  }
  if (ace.who == "GROUP@") {  // with or without the flag
    principal->tag = AclTag::kGroupObj;
    return true;
  }
  principal->tag = group ? AclTag::kGroup : AclTag::kUser;
  const bool number = !ace.who.empty() && ace.who[0] >= '0' && ace.who[0] <= '9';
  return number && absl::SimpleAtoi(ace.who, &principal->id) && principal->id != ~0u;
}

// Converts the mask of an ACE to POSIX rights. Returns false if they cannot express it.
bool ParseMask(const wire::Ace& ace, const Principal& principal, bool directory, uint8_t* perm) {
  uint32_t left = ace.access_mask;
  const auto take = [&](uint32_t all, uint32_t too, uint8_t right) {
    if ((left & all) == all) {
      *perm |= right;
      left &= ~(all | too);
    }
  };
  *perm = 0;
  take(kRead, kReadToo, kAclRead);
  take(WriteBits(directory), kWriteToo, kAclWrite);
  take(wire::kAceExecute, 0, kAclExecute);
  if (ace.type == wire::kAceAllowed) {
    left &= ~kEverybodys;
    if (principal.tag == AclTag::kUserObj) left &= ~kOwners;
  }
  return left == 0;
}

// Evaluates a list of ACEs: for each principal and right, the first ACE that decides. For a user
// that matches several principals, the first of these ACEs counts.
class Rules {
 public:
  void Add(const Principal& principal, bool allow, uint8_t perm) {
    Row& row = RowOf(principal);
    for (int bit = 0; bit < 3; ++bit) {
      if ((perm >> bit & 1) == 0) continue;
      if (row.first[static_cast<size_t>(bit)] == kNever) {
        row.first[static_cast<size_t>(bit)] = count_;
        row.allows |= static_cast<uint8_t>((allow ? 1 : 0) << bit);
      }
    }
    ++count_;
  }

  // Returns the rights of users that match only `a`, `b` and EVERYONE@.
  uint8_t RightsOf(const Principal& a, const Principal& b) {
    const Row rows[] = {RowOf(a), RowOf(b), RowOf({AclTag::kOther, 0})};
    uint8_t rights = 0;
    for (size_t bit = 0; bit < 3; ++bit) {
      const Row* decides = &rows[0];
      for (const Row& row : rows) {
        if (row.first[bit] < decides->first[bit]) decides = &row;
      }
      rights |= decides->allows & static_cast<uint8_t>(1u << bit);
    }
    return rights;
  }

  std::vector<Principal> principals() const {
    std::vector<Principal> all;
    for (const Row& row : rows_) all.push_back(row.principal);
    return all;
  }
  bool empty() const { return count_ == 0; }

 private:
  static constexpr int kNever = INT_MAX;
  struct Row {
    Principal principal;
    std::array<int, 3> first = {kNever, kNever, kNever};  // by bit of a permission
    uint8_t allows = 0;                                   // bits that this first ACE allows
  };

  Row& RowOf(const Principal& principal) {
    for (Row& row : rows_) {
      if (row.principal == principal) return row;
    }
    return rows_.emplace_back(Row{principal});
  }

  std::vector<Row> rows_;
  int count_ = 0;
};

// The check of a list with more named users and groups would take too long.
constexpr size_t kMostNamed = 128;

DafsStatus Parse(std::span<const wire::Ace> aces, bool directory, Rules* access, Rules* inherited) {
  for (const wire::Ace& ace : aces) {
    if (ace.type != wire::kAceAllowed && ace.type != wire::kAceDenied) {
      const bool known = ace.type == wire::kAceAudit || ace.type == wire::kAceAlarm;
      return known ? DafsStatus::kNotSupp : DafsStatus::kInval;
    }
    const uint32_t inherit = ace.flag & kInherit;
    const bool only = (ace.flag & wire::kAceInheritOnly) != 0;
    if ((inherit != 0 && !directory) || (only && inherit == 0)) return DafsStatus::kInval;
    if ((ace.flag & ~kFlagsKnown) != 0 || (inherit != 0 && inherit != kInherit)) {
      return DafsStatus::kNotSupp;
    }
    Principal principal;
    if (!ParsePrincipal(ace, &principal)) return DafsStatus::kInval;
    uint8_t perm = 0;
    if (!ParseMask(ace, principal, directory, &perm)) return DafsStatus::kNotSupp;
    const bool allow = ace.type == wire::kAceAllowed;
    if (!only) access->Add(principal, allow, perm);
    if (inherit != 0) inherited->Add(principal, allow, perm);
  }
  return DafsStatus::kOk;
}

// Returns the only ACL that can be equal to `rules`: each entry has the rights of a user that
// matches only its principal.
PosixAcl Candidate(Rules& rules) {
  PosixAcl acl;
  const auto add = [&](const Principal& p) {
    acl.entries.push_back({p.tag, rules.RightsOf(p, p), p.id});
  };
  uint8_t mask = 0;
  for (AclTag tag : {AclTag::kUserObj, AclTag::kGroupObj, AclTag::kOther}) add({tag, 0});
  for (const Principal& p : rules.principals()) {
    if (p.tag == AclTag::kUser || p.tag == AclTag::kGroup) add(p);
  }
  for (const PosixAcl::Entry& entry : acl.entries) {
    if (entry.tag != AclTag::kUserObj && entry.tag != AclTag::kOther) mask |= entry.perm;
  }
  if (acl.entries.size() > 3) acl.entries.push_back({AclTag::kMask, mask, 0});
  std::sort(acl.entries.begin(), acl.entries.end(), [](const auto& a, const auto& b) {
    return std::pair(a.tag, a.id) < std::pair(b.tag, b.id);
  });
  return acl;
}

// Returns whether `acl` and `rules` give the same rights. Checking users that match two principals
// is sufficient: of all principals that a user matches, one decides in `rules` and one in `acl`.
bool SameRights(Rules& rules, const PosixAcl& acl, bool directory, std::optional<uint32_t> owner) {
  std::vector<wire::Ace> aces;
  WriteAcl(acl, AceWriter(directory, 0, aces));
  Rules others, unused;
  if (Parse(aces, directory, &others, &unused) != DafsStatus::kOk) return false;
  const std::vector<Principal> all = others.principals();
  for (const Principal& a : all) {
    for (const Principal& b : all) {
      // No user matches two named users. Only the owner can also match a named user.
      const bool owner_named = a.tag == AclTag::kUserObj && b.tag == AclTag::kUser && b.id == owner;
      if (a.is_user() && b.is_user() && a != b && !owner_named) continue;
      if (rules.RightsOf(a, b) != others.RightsOf(a, b)) return false;
    }
  }
  return true;
}

}  // namespace

std::vector<wire::Ace> AcesFromPosix(const PosixAcls& acls, bool directory) {
  std::vector<wire::Ace> aces;
  WriteAcl(acls.access, AceWriter(directory, 0, aces));
  if (acls.inherited.has_value()) {
    WriteAcl(*acls.inherited, AceWriter(directory, kInherit | wire::kAceInheritOnly, aces));
  }
  return aces;
}

DafsStatus PosixFromAces(std::span<const wire::Ace> aces, bool directory, uint32_t owner,
                         PosixAcls* acls) {
  Rules access, inherited;
  if (DafsStatus status = Parse(aces, directory, &access, &inherited); status != DafsStatus::kOk) {
    return status;
  }
  if (access.principals().size() > kMostNamed || inherited.principals().size() > kMostNamed) {
    return DafsStatus::kNotSupp;
  }
  acls->access = Candidate(access);
  acls->inherited.reset();
  if (!SameRights(access, acls->access, directory, owner)) return DafsStatus::kNotSupp;
  if (inherited.empty()) return DafsStatus::kOk;
  acls->inherited = Candidate(inherited);
  return SameRights(inherited, *acls->inherited, directory, std::nullopt) ? DafsStatus::kOk
                                                                          : DafsStatus::kNotSupp;
}

}  // namespace dafs::server
