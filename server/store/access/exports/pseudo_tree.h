// The current directories above the exports. A reload replaces them.
// Thread-safe, except Renew: one thread at a time. Nothing blocks.
#pragma once

#include <atomic>
#include <memory>
#include <string_view>
#include <vector>

#include "server/store/holdings/caller.h"
#include "server/store/objects/export_set.h"
#include "server/store/objects/handle.h"
#include "server/store/objects/pseudo_fs.h"
#include "wire/protocol/constants.h"

namespace dafs::server {

class PseudoTree {
 public:
  // Both are borrowed.
  PseudoTree(const ExportSet& exports, const HandleMac& mac);

  // The result stays valid until the end.
  const PseudoFs& Get() const { return *newest_.load(std::memory_order_acquire); }
  // Builds the directories again, from the current exports.
  void Renew();

  // Whether an export at or below `node` admits the caller. WRONGSEC: none does, but one may with
  // another protection or authentication. ACCES: none.
  wire::DafsStatus AdmissionBelow(const Caller& caller, const PseudoNode& node) const;
  // Finds a name in `directory`. NOENT: there is none, or it leads only to exports that hide from
  // the caller, which sets `*caller.hidden`. WRONGSEC: as AdmissionBelow.
  wire::DafsStatus Find(const Caller& caller, const PseudoNode& directory, std::string_view name,
                        const PseudoNode** child) const;

 private:
  const ExportSet& exports_;
  const HandleMac& mac_;
  std::vector<std::unique_ptr<const PseudoFs>> all_;
  std::atomic<const PseudoFs*> newest_{nullptr};  // publishes the newest of them
};

}  // namespace dafs::server
