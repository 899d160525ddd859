// The streams of a session: stream_id and seq_number of its requests.
// Spec: 5.2.1 (transaction ids), 5.2.2 (streams expire when Nreq shrinks); WIRE 3.1, 11.5.
// Belongs to the session's thread.
//
// Spec gap: 9.2 names no status for a stream that is busy or a sequence number out of order. The
// server answers both with DAFSERR_INVAL (step 8, stream_id): the responses of two such requests
// could be confused.
#pragma once

#include <cstdint>
#include <vector>

namespace dafs::server {

class Streams {
 public:
  // Makes room for `nreq` streams. If `nreq` is lower than before, the streams at and above it
  // expire; their requests in progress continue. When they are granted again, the first request on
  // each chooses its sequence number.
  void Grant(uint32_t nreq);

  // All stream ids below this have been granted at some time. A client that has not yet seen a
  // lower nreq may still use them.
  uint32_t limit() const { return static_cast<uint32_t>(streams_.size()); }

  // A request arrived. Returns false if its stream is busy or its number is not the next one.
  bool Begin(uint16_t stream_id, uint16_t seq_number);
  // The response to it is about to be sent.
  void End(uint16_t stream_id);
  // A request with a bad checksum arrived, perhaps on this stream: the next request may have any
  // number.
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
