// Waits for the answers of name services about owners in attributes (client/state/file_owners.h).
// They may take seconds: the coroutine of the operation waits, and the loop goes on.
// Spec: 6.1.5, WIRE R90.
// Belongs to the thread of its loop; one for each worker. Nothing blocks.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/exchange/call.h"
#include "client/state/file_owners.h"
#include "runtime/loop/loop.h"
#include "runtime/loop/task.h"
#include "runtime/loop/wait_list.h"
#include "wire/protocol/attributes.h"

namespace dafs::client {

// The numbers in the arguments of a chain for which names are sent.
struct SentOwners {
  // Puts the numbers back.
  void Restore();

  std::vector<std::pair<std::string*, std::string>> numbers;  // an argument, and what it was
  std::vector<OwnerQuestion> ask;                             // before it is sent
  bool asked = false;
};

class OwnerLookups {
 public:
  // The longest wait of one operation. IdMap reports the failure of a lookup after 10 s.
  static constexpr absl::Duration kMostWait = absl::Seconds(12);

  // Both must outlive this.
  OwnerLookups(FileOwners& owners, Loop& loop);
  ~OwnerLookups() { Shutdown(); }
  OwnerLookups(const OwnerLookups&) = delete;
  OwnerLookups& operator=(const OwnerLookups&) = delete;

  // Replaces the names in results of `chain`. Attributes with an owner that has no number have no
  // promise afterwards, so that the kernel requests them again soon. `ask` as in FileOwners.
  void ToNumbers(std::span<CallBase* const> chain, std::vector<OwnerQuestion>* ask);
  // The same for attributes that are no result of a call. Returns false if an owner has no number.
  // Errors: kCancelled.
  Task<absl::StatusOr<bool>> ToNumbers(std::span<wire::FileAttributes* const> attributes);
  // Replaces the numbers in the arguments of `chain`, and adds to `sent`. kInternal as in
  // FileOwners.
  absl::Status ToNames(std::span<CallBase* const> chain, SentOwners& sent);

  // Returns after FileOwners has all answers, or after kMostWait, or at `deadline`. Errors:
  // kCancelled.
  Task<absl::Status> Ask(std::vector<OwnerQuestion> questions, absl::Time deadline);

  // Ends all waits with kCancelled.
  void Shutdown();

 private:
  struct Post;

  FileOwners& owners_;
  WaitList answers_;
  // Shared with the callbacks of questions, which may outlive this.
  const std::shared_ptr<Post> post_;
};

}  // namespace dafs::client
