#include "tests/wire/dat/dat_pair.h"

#include <arpa/inet.h>

#include <cstdio>
#include <string_view>

namespace dafs::dat::testing {

Address LoopbackAddress() {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return Address(reinterpret_cast<const sockaddr*>(&address), sizeof(address));
}

namespace {

absl::StatusOr<std::unique_ptr<Pair>> TryPair(Provider& client, Provider& server,
                                              const Address& address,
                                              const EndpointOptions& options,
                                              const std::string& client_data,
                                              Listener* shared_listener, absl::Duration patience) {
  auto pair = std::make_unique<Pair>();
  Listener* listener = shared_listener;
  if (listener == nullptr) {
    absl::StatusOr<std::unique_ptr<Listener>> own = server.Listen(address);
    if (!own.ok()) return own.status();
    pair->listener = *std::move(own);
    listener = pair->listener.get();
  }
  absl::StatusOr<std::unique_ptr<PendingEndpoint>> calling =
      client.Resolve(listener->local(), "", absl::Seconds(5));
  if (!calling.ok()) return calling.status();
  absl::StatusOr<std::unique_ptr<Domain>> domain = (*calling)->NewDomain();
  if (!domain.ok()) return domain.status();
  pair->client.domain = *std::move(domain);
  absl::StatusOr<std::unique_ptr<Endpoint>> endpoint =
      (*calling)->CreateEndpoint(*pair->client.domain, options);
  if (!endpoint.ok()) return endpoint.status();
  pair->client.endpoint = *std::move(endpoint);
  if (absl::Status status = pair->client.endpoint->Connect(Bytes(client_data)); !status.ok()) {
    return status;
  }
  const absl::Time deadline = Loop::Now() + patience;
  while (pair->server.endpoint == nullptr) {
    if (Loop::Now() > deadline) return absl::DeadlineExceededError("no connection request");
    pair->client.Poll();
    for (const Completion& one : pair->client.seen) {
      if (!one.status.ok()) return one.status;  // refused or timed out
    }
    absl::StatusOr<std::unique_ptr<PendingEndpoint>> called = listener->Next();
    if (!called.ok()) return called.status();
    if (*called == nullptr) continue;
    domain = (*called)->NewDomain();
    if (!domain.ok()) return domain.status();
    pair->server.domain = *std::move(domain);
    endpoint = (*called)->CreateEndpoint(*pair->server.domain, options);
    if (!endpoint.ok()) return endpoint.status();
    pair->server.endpoint = *std::move(endpoint);
  }
  return pair;
}

}  // namespace

// Two of some 15,000 connection requests by software iWARP never arrived in a busy guest, for an
// unknown reason. Programs retry. This function retries once for devices, and prints that it does.
absl::StatusOr<std::unique_ptr<Pair>> MakePair(Provider& client, Provider& server,
                                               const Address& address,
                                               const EndpointOptions& options,
                                               const std::string& client_data,
                                               Listener* shared_listener) {
  absl::StatusOr<std::unique_ptr<Pair>> pair =
      TryPair(client, server, address, options, client_data, shared_listener, kPatience / 2);
  if (pair.ok() || std::string_view(server.name()) != "rdma") return pair;
  std::fprintf(stderr, "connection failed: %s; retrying once\n", pair.status().ToString().c_str());
  return TryPair(client, server, address, options, client_data, shared_listener, kPatience / 2);
}

absl::Status FinishPair(Pair& pair, const std::string& server_data) {
  if (absl::Status status = pair.server.endpoint->Accept(Bytes(server_data)); !status.ok()) {
    return status;
  }
  if (!pair.Await(pair.client, Event::kConnected).has_value() ||
      !pair.Await(pair.server, Event::kConnected).has_value()) {
    return absl::DeadlineExceededError("no connection");
  }
  return absl::OkStatus();
}

}  // namespace dafs::dat::testing
