// Requests that had begun when an earlier instance of the server ended: whether they were executed.
// Spec: 5.2.4.
// Blocks on the file system.
#pragma once

#include "absl/time/time.h"
#include "wire/protocol/procedures.h"

namespace dafs::server {

struct StoreParts;
struct Intent;
struct Result;

class RestartCheck {
 public:
  // Borrowed.
  explicit RestartCheck(StoreParts& store) : store_(store) {}

  // Compares with the file system a request that had begun when an earlier instance ended. Returns
  // whether it was executed (5.2.4), with its result. Completes or undoes a half-executed request.
  // An error that shows neither (descriptors or memory are short, a cluster file system recovers)
  // is not an outcome: reads again, with growing pauses. At `deadline` logs the error and returns
  // false. Call before any other request reaches its export.
  bool Recheck(wire::Proc procedure, const Intent& intent, absl::Time deadline, Result* result);
  // For a request that the journal records as executed: adds to the result the values that the
  // journal does not contain.
  void Complete(const Intent& intent, Result* result);

 private:
  StoreParts& store_;
};

}  // namespace dafs::server
