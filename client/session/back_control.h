// The Back-control Channel of a session: the server asks, the client answers at once. Batch
// completions go to whoever submitted; the client holds no delegations, so all that is said of them
// is answered so. Spec: 3.1.2.3.3, 3.2.6.1, 6.6; WIRE 9.1, 9.2, 11.5, R72, R74.
//
// One thread, that of the loop. The credits of this direction are the client's to give: it keeps
// kRequests receives posted and says so in every answer.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "client/session/channel.h"
#include "wire/protocol/header.h"
#include "wire/protocol/types.h"
#include "wire/rules/request_check.h"

namespace dafs::client {

// Who hears what the server has to say. Called from the loop, one directive at a time; the session
// may be killed from within.
class BackControlHandler {
 public:
  virtual ~BackControlHandler() = default;
  virtual void OnBatchCompletion(const std::vector<wire::CompletionNotification>& completions) = 0;
};

class BackControl final : public Channel {
 public:
  // Directives that the server may have outstanding.
  static constexpr uint32_t kRequests = 8;
  // Of one directive: some 160 completions.
  static constexpr uint32_t kMaxRequest = kMessage;
  static constexpr uint32_t kMaxResponse = 1024;

  // As Channel::Connect. `checksums`: those of the session are on.
  static absl::StatusOr<std::unique_ptr<BackControl>> Connect(dat::Loop& loop,
                                                              dat::Provider& provider,
                                                              dat::Domain& domain,
                                                              const Options& options,
                                                              bool checksums);
  // What CONNECT_BIND asks for besides.
  static void Propose(wire::ConnectBindArgs& args);

  // Null: completions are answered and go nowhere.
  void OnDirective(BackControlHandler* handler) { handler_ = handler; }
  uint64_t directives() const { return directives_; }  // taken so far

 private:
  BackControl(dat::Loop& loop, bool checksums);
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
  std::deque<wire::ResponseHeader> unsent_;  // for want of a send buffer; one for each receive
};

}  // namespace dafs::client
