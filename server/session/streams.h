// The streams of a session: stream_id and seq_number of its requests.
// Spec: 5.2.1 (transaction ids), 5.2.2 (streams expire when Nreq shrinks); WIRE 3.1, 11.5.
// Belongs to the session's thread.
//
// Spec gap: 9.2 names no status for a stream that is busy or a sequence number out of order. Both
// are answered DAFSERR_INVAL (step 8, stream_id): a response of one could be taken for the other's.
#pragma once

#include <cstdint>
#include <vector>

namespace dafs::server {

class Streams {
 public:
  // Room for `nreq` streams. Streams at and above a lower `nreq` expire; what is in progress on
  // them goes on, and when they are granted again their first request chooses its number anew.
  void Grant(uint32_t nreq);

  // Stream ids below this have been granted at some time: a client that has not seen a lower nreq
  // yet may still use them.
  uint32_t limit() const { return static_cast<uint32_t>(streams_.size()); }

  // A request arrived. False if its stream is busy or its number is not the next one.
  bool Begin(uint16_t stream_id, uint16_t seq_number);
  // The response to it is about to be sent.
  void End(uint16_t stream_id);
  // A request that cannot be trusted (bad checksum) arrived, perhaps on this stream: the next one
  // may have any number.
  void Forget(uint16_t stream_id);

 private:
  struct Stream {
    bool busy = false;
    bool started = false;  // next is known
    uint16_t next = 0;
  };
  std::vector<Stream> streams_;
  uint32_t nreq_ = 0;
};

}  // namespace dafs::server
