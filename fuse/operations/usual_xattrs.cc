#include "fuse/operations/usual_xattrs.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "fuse/kernel/default_acl.h"
#include "runtime/loop.h"
#include "wire/protocol/attribute_names.h"
#include "wire/protocol/status.h"

namespace dafs::fuse {
namespace {

// The attributes that the kernel and ls(1) read of every file.
struct Usual {
  Absent absent;
  std::string_view name;
};
constexpr Usual kUsual[] = {{Absent::kCapability, "security.capability"},
                            {Absent::kSelinux, "security.selinux"},
                            {Absent::kAccessAcl, kAccessAclXattr},
                            {Absent::kDefaultAcl, kDefaultAclXattr}};

}  // namespace

std::optional<Absent> UsualXattrs::AbsentOf(std::string_view name) {
  for (const Usual& usual : kUsual) {
    if (usual.name == name) return usual.absent;
  }
  return std::nullopt;
}

void UsualXattrs::Requested(uint64_t nodeid, Absent attribute) {
  walk_.At(nodeid, state_.listing_order.NextOf(walk_.last()));
  if (attribute == Absent::kAccessAcl && walk_.in_order()) state_.acl_habit.Used();
}

bool UsualXattrs::KnownAbsent(uint64_t nodeid, Absent attribute) const {
  return state_.absent_xattrs.Known(nodeid, attribute, Loop::Now());
}

void UsualXattrs::LookAhead(const CallerIdentity& who, Absent attribute) {
  const client::Files::Gathering gathering(files_, true);
  const int wanted = walk_.Wanted();
  uint64_t nodeid = walk_.from();
  int files = 0;
  for (; files < wanted; ++files) {
    const uint64_t next = state_.listing_order.NextOf(nodeid);
    std::optional<InodeView> node = state_.inodes.Find(next);
    if (!node.has_value()) break;
    nodeid = next;
    if (node->type != wire::ObjectType::kReg && node->type != wire::ObjectType::kDir) continue;
    if (state_.absent_xattrs.Known(nodeid, attribute, Loop::Now())) continue;
    Start(LookAheadAt(who, *node));
  }
  walk_.Asked(files, nodeid);
}

Task<void> UsualXattrs::LookAheadAt(CallerIdentity who, InodeView node) {
  QuestionsOut::Question question{.nodeid = node.nodeid};
  prefetches_.Begin(question);
  co_await LookFor(*who, node);
  prefetches_.End(question);
}

// One list of names shows which of the usual attributes are absent; few files have any.
Task<void> UsualXattrs::LookFor(const client::Identity& who, const InodeView& node) {
  const absl::Time asked = Loop::Now();
  absl::StatusOr<std::vector<std::string>> names =
      co_await files_.xattrs().ListXattrs(who, node.handle);
  if (wire::DafsFromStatus(names.status()) == wire::DafsStatus::kNotSupp) names.emplace();
  if (!names.ok()) co_return;  // the request for the attribute itself fails likewise
  for (const Usual& usual : kUsual) {
    if (std::find(names->begin(), names->end(), usual.name) == names->end()) {
      state_.absent_xattrs.Note(node.nodeid, usual.absent, asked);
    }
  }
}

}  // namespace dafs::fuse
