#include "client/state/client.h"

#include <algorithm>
#include <bit>
#include <random>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "runtime/log/log.h"
#include "runtime/text.h"
#include "wire/protocol/limits.h"

namespace dafs::client {

void Limits::CopyFrom(const Limits& other) {
  const auto copy = [](auto& to, const auto& from) {
    to.store(from.load(std::memory_order_relaxed), std::memory_order_relaxed);
  };
  copy(max_read, other.max_read);
  copy(max_write, other.max_write);
  copy(max_append, other.max_append);
  copy(lease_seconds, other.lease_seconds);
  copy(no_direct_reads, other.no_direct_reads);
  copy(no_direct_writes, other.no_direct_writes);
  copy(no_direct_readdir, other.no_direct_readdir);
  copy(no_open_handle, other.no_open_handle);
  copy(no_open_execute, other.no_open_execute);
  copy(no_make_node, other.no_make_node);
  copy(no_open_owner, other.no_open_owner);
  copy(extensions, other.extensions);
}
namespace {

constexpr uint32_t kLeastMessage = 1024;  // WIRE 11.3
// This client's limit: a slot's buffers are registered memory.
constexpr uint32_t kMostMessage = 1u << 20;
constexpr uint32_t kMostRequests = 1024;                     // this client's limit, as above
constexpr size_t kMostClientIdString = 1024;                 // WIRE 7
constexpr absl::Duration kDefaultLease = absl::Seconds(60);  // until the server reports its own

absl::Status CheckRange(std::string_view what, uint64_t value, uint64_t least, uint64_t most) {
  if (value >= least && value <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(Text(what), " ", value, ": not between ", least, " and ", most));
}

absl::Status Check(const ClientOptions& o) {
  if (o.addresses.empty()) return absl::InvalidArgumentError("no server address");
  if (o.providers.empty()) return absl::InvalidArgumentError("no transport");
  const absl::Status checks[] = {
      CheckRange("client_id_string bytes", o.client_id_string.size(), 1, kMostClientIdString),
      CheckRange("fence_id bytes", o.fence_id.size(), 0, wire::kFenceIdBound.max_bytes),
      CheckRange("max_request_size", o.max_request_size, kLeastMessage, kMostMessage),
      CheckRange("max_response_size", o.max_response_size, kLeastMessage, kMostMessage),
      CheckRange("max_requests", o.max_requests, 1, kMostRequests),
      CheckRange("rsize", o.read_bytes, 1024, o.buffers.large_bytes),
      CheckRange("wsize", o.write_bytes, 1024, o.buffers.large_bytes),
  };
  for (const absl::Status& check : checks) {
    if (!check.ok()) return check;
  }
  return absl::OkStatus();
}

// WIRE 11.3: sizes are multiples of 8.
uint32_t RoundDown(uint32_t bytes) { return bytes / 8 * 8; }

}  // namespace

wire::ByteOrder HostByteOrder() {
  return std::endian::native == std::endian::big ? wire::ByteOrder::kBig : wire::ByteOrder::kLittle;
}

absl::StatusOr<std::unique_ptr<Client>> Client::Create(ClientOptions options) {
  if (absl::Status status = Check(options); !status.ok()) return status;
  options.max_request_size = RoundDown(options.max_request_size);
  options.max_response_size = RoundDown(options.max_response_size);
  if (options.client_verifier.is_zero()) {
    std::random_device random;
    for (uint8_t& byte : options.client_verifier.bytes) byte = static_cast<uint8_t>(random());
  }
  return absl::WrapUnique(new Client(std::move(options)));
}

Client::Client(ClientOptions options)
    : options_(std::move(options)), uncommitted_(options_.uncommitted_bytes) {}
Client::~Client() = default;

void Client::RecordIn(StateRecorder* recorder) {
  recorder_ = recorder;
  sessions_.RecordIn(recorder);
  credentials_.RecordIn(recorder);
  opens_.RecordIn(recorder);
  locks_.RecordIn(recorder);
  delegations_.RecordIn(recorder);
  uncommitted_.RecordIn(recorder);
}

void Client::AddWorker(Files* files) {
  absl::MutexLock lock(&mutex_);
  workers_.push_back(files);
}

void Client::RemoveWorker(Files* files) {
  absl::MutexLock lock(&mutex_);
  std::erase(workers_, files);
}

absl::Duration Client::lease() const {
  const uint64_t seconds = limits_.lease_seconds.load(std::memory_order_relaxed);
  return seconds > 0 ? absl::Seconds(static_cast<int64_t>(seconds)) : kDefaultLease;
}

void Client::NoteFencedOff(absl::Time now) {
  const int64_t before =
      last_fenced_off_.exchange(absl::ToUnixNanos(now), std::memory_order_relaxed);
  if (now - absl::FromUnixNanos(before) < absl::Minutes(1)) return;
  const std::string user =
      options_.fence_id.empty()
          ? "a client without a fence id (fence_id=)"
          : absl::StrCat("the fence id ", Text(options_.fence_id), " of this client");
  LogWarning(absl::StrCat(Text(options_.server_name), ": fenced off: a fencing list of the server ",
                          "does not admit ", user,
                          "; programs get EACCES until dafsctl fence allow "
                          "admits it"));
}

void Client::NoteActivity(absl::Time sent, absl::Time answered) {
  const int64_t time = absl::ToUnixNanos(sent);
  int64_t before = last_activity_.load(std::memory_order_relaxed);
  // In the worst case the earlier request renewed the leases when it was sent, and this one only
  // now.
  if (before != 0 && answered - absl::FromUnixNanos(before) > lease()) {
    lapsed_.store(true, std::memory_order_relaxed);
  }
  while (before < time &&
         !last_activity_.compare_exchange_weak(before, time, std::memory_order_relaxed)) {
  }
}

}  // namespace dafs::client
