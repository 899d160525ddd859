#include "tests/dat/dat_pair.h"

#include <arpa/inet.h>

namespace dafs::dat::testing {

Address LoopbackAddress() {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return Address(reinterpret_cast<const sockaddr*>(&address), sizeof(address));
}

absl::StatusOr<std::unique_ptr<Pair>> MakePair(Provider& client, Provider& server,
                                               const Address& address,
                                               const EndpointOptions& options,
                                               const std::string& client_data,
                                               Listener* shared_listener) {
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
  const absl::Time deadline = Loop::Now() + kPatience;
  while (pair->server.endpoint == nullptr) {
    if (Loop::Now() > deadline) return absl::DeadlineExceededError("no connection request");
    pair->client.Poll();
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
