#include "wire/rules/argument_rules.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "wire/protocol/name_check.h"
#include "wire/rules/share_rules.h"

namespace dafs::wire {

namespace {

// R87: INVAL for 0, or for a range beyond the 64-bit space. All ones extends to the end.
DafsStatus CheckLockRange(uint64_t offset, uint64_t length) {
  if (length == kLockToEnd) return DafsStatus::kOk;
  if (length == 0 || length - 1 > std::numeric_limits<uint64_t>::max() - offset) {
    return DafsStatus::kInval;
  }
  return DafsStatus::kOk;
}

DafsStatus InvalIf(bool wrong) { return wrong ? DafsStatus::kInval : DafsStatus::kOk; }

}  // namespace

// Spec: WIRE 5.2 column "Set", 6.5.35.
DafsStatus CheckSettable(const FileAttributes& attributes) {
  // Attributes that are included but not valid are ignored.
  if ((attributes.valid & ~kFattrSettable) != 0) return DafsStatus::kInval;
  if (attributes.has(kFattrMode) && (attributes.mode & ~kModeBits) != 0) return DafsStatus::kInval;
  return DafsStatus::kOk;
}

DafsStatus CheckRules(const AccessArgs& args) { return InvalIf((args.access & ~kAccessAll) != 0); }

DafsStatus CheckRules(const AllocateArgs& args) { return InvalIf(args.length == 0); }

DafsStatus CheckRules(const AppendDirectArgs& args) {
  return InvalIf(args.stable_how == StableHow::kUnstable ||
                 args.write_data_buffer.buffer_byte_count < args.byte_count);
}

DafsStatus CheckRules(const AppendInlineArgs& args) {
  return InvalIf(args.stable_how == StableHow::kUnstable);
}

// R78: both lists of a request have equal totals of at most 2^32 - 1. A request_id occurs only
// once.
DafsStatus CheckRules(const BatchSubmitArgs& args) {
  std::vector<uint64_t> ids;
  ids.reserve(args.requests.size());
  for (const RwRequest& request : args.requests) {
    uint64_t total = 0;
    for (const FileChunk& chunk : request.chunks) total += chunk.byte_count;
    if (total != TotalBytes(request.request_buffers) ||
        total > std::numeric_limits<uint32_t>::max()) {
      return DafsStatus::kInval;
    }
    ids.push_back(request.request_id);
  }
  std::sort(ids.begin(), ids.end());
  return InvalIf(std::adjacent_find(ids.begin(), ids.end()) != ids.end());
}

// 9.6: known bits only, and either one object or all.
DafsStatus CheckRules(const BcChangedArgs& args) {
  constexpr uint32_t kOfObject = kChangedNames | kChangedAttributes;
  for (const Changed& changed : args.changed) {
    const bool all = changed.what == kChangedAll;
    const bool known = all || ((changed.what & kOfObject) != 0 && (changed.what & ~kOfObject) == 0);
    const bool names = (changed.what & kChangedNames) != 0;
    if (!known || all != (changed.filehandle == FileHandle()) ||
        (!names && !changed.name.empty())) {
      return DafsStatus::kInval;
    }
  }
  return InvalIf(args.changed.empty());
}

DafsStatus CheckRules(const CreateArgs& args) {
  switch (args.obj_type) {
    case ObjectType::kDir:
      break;
    case ObjectType::kBlk:
    case ObjectType::kChr:
    case ObjectType::kLnk:
    case ObjectType::kSock:
    case ObjectType::kFifo:
      if (args.attr.included != 0) return DafsStatus::kInval;
      break;
    default:
      return DafsStatus::kBadType;
  }
  if (IsDotName(args.component)) return DafsStatus::kInval;  // R63
  return CheckSettable(args.attr);
}

DafsStatus CheckRules(const LinkArgs& args) { return InvalIf(IsDotName(args.newname)); }

DafsStatus CheckRules(const LockArgs& args) {
  if ((args.options & ~(kLockOptionsAll | kLockOptionsPrivate)) != 0) return DafsStatus::kInval;
  return CheckLockRange(args.offset, args.length);
}

DafsStatus CheckRules(const LocktArgs& args) {
  if (args.lock_type == LockType::kAbort) return DafsStatus::kInval;
  return CheckLockRange(args.offset, args.length);
}

DafsStatus CheckRules(const LockuArgs& args) {
  if (args.lock_type == LockType::kAbort) return DafsStatus::kInval;
  return CheckLockRange(args.offset, args.length);
}

DafsStatus CheckRules(const MakeNodeArgs& args) {
  switch (args.obj_type) {
    case ObjectType::kReg:
    case ObjectType::kBlk:
    case ObjectType::kChr:
    case ObjectType::kSock:
    case ObjectType::kFifo:
      break;
    default:
      return DafsStatus::kBadType;
  }
  return InvalIf(IsDotName(args.component) || (args.mode & ~kModeBits) != 0);
}

// R63, R70.
DafsStatus CheckRules(const OpenArgs& args) {
  const bool create = args.open_type == OpenType::kCreate;
  switch (args.claim_type) {
    case OpenClaimType::kNull:
      if (create && IsDotName(args.pathname.back())) return DafsStatus::kInval;
      break;
    case OpenClaimType::kPrevious:
    case OpenClaimType::kDelegateCur:
    case OpenClaimType::kDelegatePrev:
      if (create) return DafsStatus::kInval;
      break;
    case OpenClaimType::kCreateUnlinked:
      if (!create || args.createmode == CreateMode::kExclusive) return DafsStatus::kInval;
      break;
  }
  const bool may_wish =
      args.claim_type == OpenClaimType::kNull || args.claim_type == OpenClaimType::kCreateUnlinked;
  const DafsStatus share = may_wish ? CheckShareOrWish(args.share_access, args.share_deny)
                                    : CheckShare(args.share_access, args.share_deny);
  return share != DafsStatus::kOk ? share : CheckSettable(args.createattrs);
}

DafsStatus CheckRules(const OpenDelegatedArgs& args) {
  return CheckShareOrWish(args.share_access, args.share_deny);
}

DafsStatus CheckRules(const OpenDowngradeArgs& args) {
  return CheckShare(args.share_access, args.share_deny);
}

DafsStatus CheckRules(const OpenHandleArgs& args) {
  return CheckShare(args.share_access, args.share_deny);
}

DafsStatus CheckRules(const ReadDirectArgs& args) {
  return InvalIf(TotalBytes(args.read_data_buffers) < args.byte_count);
}

DafsStatus CheckRules(const RemoveArgs& args) { return InvalIf(IsDotName(args.target)); }

DafsStatus CheckRules(const RenameArgs& args) {
  return InvalIf(IsDotName(args.oldname) || IsDotName(args.newname));
}

DafsStatus CheckRules(const Rename2Args& args) {
  return InvalIf(IsDotName(args.oldname) || IsDotName(args.newname) ||
                 (args.flags != kRenameNoReplace && args.flags != kRenameExchange));
}

DafsStatus CheckRules(const SetFencingListArgs& args) {
  return InvalIf(args.access == FenceAccess::kDeny && args.update == FenceUpdate::kOverwrite);
}

DafsStatus CheckRules(const SetattrInlineArgs& args) { return CheckSettable(args.obj_attributes); }

DafsStatus CheckRules(const WriteDirectArgs& args) {
  return InvalIf(TotalBytes(args.write_data_buffers) < args.byte_count);
}

}  // namespace dafs::wire
