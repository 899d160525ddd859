// The rules of WIRE 9.4 for arguments, beyond their layout, that need nothing but the arguments:
// lock ranges, buffer sums, claims with create, settable attributes, forbidden names. Each function
// returns kOk or the status for the response. Spec: WIRE 9.4, 9.2 step 10.
// CheckArgs (wire/rules/request_check.h) applies them. Any thread; nothing blocks.
#pragma once

#include "wire/messages/messages.h"
#include "wire/protocol/status.h"

namespace dafs::wire {

// Checks attributes to be set (SETATTR, CREATE, OPEN with create): only settable ones, and MODE
// only in its 12 bits. Ignores attributes that are included but not valid.
DafsStatus CheckSettable(const FileAttributes& attributes);

// For procedures without such rules.
template <class Args>
DafsStatus CheckRules(const Args&) {
  return DafsStatus::kOk;
}
DafsStatus CheckRules(const AccessArgs& args);
DafsStatus CheckRules(const AllocateArgs& args);
DafsStatus CheckRules(const AppendDirectArgs& args);
DafsStatus CheckRules(const AppendInlineArgs& args);
DafsStatus CheckRules(const BatchSubmitArgs& args);
DafsStatus CheckRules(const BcChangedArgs& args);
DafsStatus CheckRules(const CreateArgs& args);
DafsStatus CheckRules(const LinkArgs& args);
DafsStatus CheckRules(const LockArgs& args);
DafsStatus CheckRules(const LocktArgs& args);
DafsStatus CheckRules(const LockuArgs& args);
DafsStatus CheckRules(const MakeNodeArgs& args);
DafsStatus CheckRules(const OpenArgs& args);
DafsStatus CheckRules(const OpenDelegatedArgs& args);
DafsStatus CheckRules(const OpenDowngradeArgs& args);
DafsStatus CheckRules(const OpenHandleArgs& args);
DafsStatus CheckRules(const ReadDirectArgs& args);
DafsStatus CheckRules(const RemoveArgs& args);
DafsStatus CheckRules(const RenameArgs& args);
DafsStatus CheckRules(const Rename2Args& args);
DafsStatus CheckRules(const SetFencingListArgs& args);
DafsStatus CheckRules(const SetattrInlineArgs& args);
DafsStatus CheckRules(const WriteDirectArgs& args);

}  // namespace dafs::wire
