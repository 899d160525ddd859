// The credits of a session: how many requests may be outstanding, and how many the client requests
// from the server.
// Spec: 3.2.6.4; WIRE 11.5.
// A value.
#pragma once

#include <algorithm>
#include <cstdint>

namespace dafs::client {

class Credits {
 public:
  // The server granted `nreq` in the negotiation.
  void Grant(uint32_t nreq) { nreq_ = target_nreq_ = nreq; }
  // A response arrived. An increase applies at once; a decrease applies by one for each response.
  void NoteResponse(uint16_t target_nreq) {
    target_nreq_ = std::max<uint32_t>(target_nreq, 1);
    nreq_ = std::max(nreq_ - 1, target_nreq_);
  }
  // The target of a damaged response is unknown. It may have taken a credit back, so it counts as a
  // decrease by one; the next response corrects that upwards.
  void NoteDamagedResponse() { nreq_ = std::max(nreq_ - 1, 1u); }

  uint32_t nreq() const { return nreq_; }
  uint32_t target_nreq() const { return target_nreq_; }  // the number that the server aims at
  bool above_target() const { return target_nreq_ < nreq_; }

  // A request had to wait: the next requests ask for more credits, until Requested.
  void Want() { wants_more_ = true; }
  void Requested() { wants_more_ = false; }
  bool wants_more() const { return wants_more_; }

 private:
  uint32_t nreq_ = 1;
  uint32_t target_nreq_ = 1;
  bool wants_more_ = false;
};

}  // namespace dafs::client
