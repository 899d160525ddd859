// The Back-control Channel of a session. The server sends directives, and the client answers each
// at once, except announced changes: those it answers when nothing old is cached any more. Batch
// completions go to the submitter of the batch.
// Spec: 3.1.2.3.3, 3.2.6.1, 6.6; WIRE 9.1, 9.2, 9.6, 11.5, R72, R74.
//
// Belongs to the thread of its loop. The client grants the credits of this direction: it keeps
// kRequests receives posted, and says so in every response.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "client/session/channel.h"
#include "wire/messages/back_control.h"
#include "wire/messages/promises.h"
#include "wire/protocol/header.h"
#include "wire/protocol/types.h"
#include "wire/rules/request_check.h"

namespace dafs::client {

// Receives directives of the server. Called from the loop, one directive at a time. The handler may
// kill the session. By default it ignores a directive, which is answered OK.
class BackControlHandler {
 public:
  virtual ~BackControlHandler() = default;
  virtual void OnBatchCompletion(const std::vector<wire::CompletionNotification>&) {}
  // BC_CHANGED, of valid elements. The server waits for `answer`, to be called once, on the loop,
  // perhaps before this returns; it has no effect after the end of the channel. Several may be
  // outstanding, and answered in any order.
  virtual void OnChanged(std::vector<wire::Changed>, absl::AnyInvocable<void()> answer) {
    answer();
  }
  // BC_LOCK_FREE: the range of a LOCK that was denied is free.
  virtual void OnLockFree(const wire::FileHandle&, uint64_t /*offset*/, uint64_t /*length*/) {}
  // BC_RECALL. The delegation is returned later. BADHANDLE: there is no delegation of the file.
  // BAD_STATEID: the state id is not that of its delegation.
  virtual wire::DafsStatus OnRecall(const wire::FileHandle&, const wire::StateId&) {
    return wire::DafsStatus::kBadHandle;
  }
  // BC_GETATTR: whether the client has a write delegation of the file.
  virtual bool HoldsWriteDelegation(const wire::FileHandle&) { return false; }
};

class BackControl final : public Channel {
 public:
  // The number of directives that the server may have outstanding.
  static constexpr uint32_t kRequests = 8;
  // The maximum size of one directive: about 160 completions.
  static constexpr uint32_t kMaxRequest = kMessage;
  static constexpr uint32_t kMaxResponse = 1024;

  // Like Channel::Connect. `checksums`: the session uses message checksums.
  static absl::StatusOr<std::unique_ptr<BackControl>> Connect(Loop& loop, dat::Provider& provider,
                                                              dat::Domain& domain,
                                                              const Options& options,
                                                              bool checksums);
  // Sets the values that CONNECT_BIND requests for this channel.
  static void Propose(wire::ConnectBindArgs& args);

  // Null: directives are answered and dropped.
  void OnDirective(BackControlHandler* handler) { handler_ = handler; }

 private:
  BackControl(Loop& loop, bool checksums);
  absl::Status Agree(const wire::ConnectBindArgs& asked, const wire::ConnectBindRes& res) override;
  void OnMessage(uint64_t index, uint32_t size_bytes) override;
  void OnSent(uint64_t index) override;
  // The content of a valid directive, for the handler.
  struct Directive {
    std::vector<wire::CompletionNotification> completions;
    std::vector<wire::Changed> changed;
    std::optional<wire::BcLockFreeArgs> lock_free;
  };
  struct Unsent {
    wire::ResponseHeader header;
    bool with_attributes = false;
  };
  wire::DafsStatus Execute(std::span<const std::byte> message, const wire::RequestVerdict& verdict,
                           Directive& directive) const;
  void Announce(std::vector<wire::Changed> changed, const wire::ResponseHeader& header);
  absl::Status Answer(const wire::ResponseHeader& header, bool with_attributes = false);

  const bool checksums_;
  BackControlHandler* handler_ = nullptr;
  std::vector<uint64_t> free_sends_;
  std::deque<Unsent> unsent_;                 // waiting for a send buffer; at most one per receive
  uint32_t announced_ = 0;                    // BC_CHANGED without an answer yet; at most kRequests
  const std::shared_ptr<BackControl*> self_;  // answers of the handler may outlive the channel
};

}  // namespace dafs::client
