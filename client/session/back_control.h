// The Back-control Channel of a session. The server sends directives, and the client answers each
// at once. Batch completions go to the submitter of the batch. The client holds no delegation, so
// it answers directives about delegations with an error.
// Spec: 3.1.2.3.3, 3.2.6.1, 6.6; WIRE 9.1, 9.2, 11.5, R72, R74.
//
// Belongs to the thread of its loop. The client grants the credits of this direction: it keeps
// kRequests receives posted, and says so in every response.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "client/session/channel.h"
#include "wire/protocol/header.h"
#include "wire/protocol/types.h"
#include "wire/rules/request_check.h"

namespace dafs::client {

// Receives directives of the server. Called from the loop, one directive at a time. The handler may
// kill the session.
class BackControlHandler {
 public:
  virtual ~BackControlHandler() = default;
  virtual void OnBatchCompletion(const std::vector<wire::CompletionNotification>& completions) = 0;
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

  // Null: completions are answered and dropped.
  void OnDirective(BackControlHandler* handler) { handler_ = handler; }
  uint64_t directives() const { return directives_; }  // received so far

 private:
  BackControl(Loop& loop, bool checksums);
  absl::Status Agree(const wire::ConnectBindArgs& asked, const wire::ConnectBindRes& res) override;
  void OnMessage(uint64_t index, uint32_t size_bytes) override;
  void OnSent(uint64_t index) override;
  wire::DafsStatus Execute(std::span<const std::byte> message, const wire::RequestVerdict& verdict,
                           std::vector<wire::CompletionNotification>* completions) const;
  absl::Status Answer(const wire::ResponseHeader& header);

  const bool checksums_;
  BackControlHandler* handler_ = nullptr;
  uint64_t directives_ = 0;
  std::vector<uint64_t> free_sends_;
  std::deque<wire::ResponseHeader> unsent_;  // waiting for a send buffer; at most one per receive
};

}  // namespace dafs::client
