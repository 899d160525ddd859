// The four operations on transport properties: each end announces its own, may request changes of
// the other, answers such a request, and announces changes. Spec: RPCRDMA2 6.1 to 6.3.
// One thread.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "wire/rpcrdma/link.h"
#include "wire/rpcrdma/properties.h"

namespace dafs::rpcrdma {

class PropertyExchange {
 public:
  explicit PropertyExchange(Link& link) : link_(link) {}  // `link` outlives it

  // Sends our properties (RDMA2_CONNPROP), once. Call when the version is agreed.
  void Announce();

  // Asks the peer to change `wanted` (RDMA2_REQPROP). `done` gets the outcome for each, in the
  // same order; the peer's properties have then changed. One request at a time. A smaller receive
  // size limits our sends at once. kFailedPrecondition: another request is open, the peer does not
  // take requests, or has said that the property does not change.
  using Done = absl::AnyInvocable<void(absl::StatusOr<std::vector<Change>>)>;
  void Ask(PropertySet wanted, Done done);

  // Raises our receive size and notifies the peer (RDMA2_UPDPROP). kInvalidArgument: smaller than
  // now, which only the peer may request, or larger than Options::receive_capacity.
  absl::Status RaiseReceiveSize(uint32_t bytes);

  // One of the four operations has arrived. Returns the error to answer with, if any.
  std::optional<ErrorCode> OnOperation(const Header& header);
  // An error that answers one of our operations. Returns false if it does not.
  bool OnError(const Header& header);
  void FailAll(const absl::Status& why);

  // The peer's announcement; empty before, and for a peer without property operations.
  const std::optional<PropertiesBody>& announced() const { return announced_; }
  // Whether the peer has answered that it does not know the operations.
  bool peer_lacks_them() const { return peer_lacks_them_; }

 private:
  void Send(Proc proc, uint32_t xid, PropertiesBody body);
  void OnRequest(const Header& header);
  void OnResponse(const Header& header);
  void OnUpdate(const PropertySet& now);
  bool MayChange(uint32_t which) const;

  struct Open {
    uint32_t xid = 0;
    PropertySet wanted;
    Done done;
    Properties before;  // of the peer
  };

  Link& link_;
  bool said_ = false;
  std::optional<PropertiesBody> announced_;
  bool peer_lacks_them_ = false;
  std::optional<Open> open_;
  uint32_t next_xid_ = 1;            // need not differ from those of calls (6.3.2)
  std::vector<uint32_t> sent_xids_;  // of announcements and updates, which an error may name
};

}  // namespace dafs::rpcrdma
