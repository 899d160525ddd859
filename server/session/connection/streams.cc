#include "server/session/connection/streams.h"

#include <cstddef>

namespace dafs::server {

void Streams::Grant(uint32_t nreq) {
  for (std::size_t i = nreq; i < streams_.size(); ++i) streams_[i].started = false;
  if (nreq > streams_.size()) streams_.resize(nreq);
  nreq_ = nreq;
}

bool Streams::Begin(uint16_t stream_id, uint16_t seq_number) {
  if (stream_id >= streams_.size()) return false;
  Stream& stream = streams_[stream_id];
  if (stream.busy || (stream.started && stream.next != seq_number)) return false;
  stream.busy = true;
  stream.started = true;
  stream.next = static_cast<uint16_t>(seq_number + 1);
  return true;
}

void Streams::End(uint16_t stream_id) {
  streams_[stream_id].busy = false;
  if (stream_id >= nreq_) streams_[stream_id].started = false;  // the stream expired since Begin
}

void Streams::Forget(uint16_t stream_id) {
  if (stream_id < streams_.size()) streams_[stream_id].started = false;
}

}  // namespace dafs::server
