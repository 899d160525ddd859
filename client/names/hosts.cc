#include "client/names/hosts.h"

#include <netdb.h>

#include <deque>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "wire/dat/address.h"

namespace dafs::names {
namespace {

constexpr size_t kMostAddressesHere = 16;  // of one host

// Never freed if the time is over: a thread of the C library may still use it.
struct HostLookup {
  Located* located = nullptr;
  std::string host, port;
  addrinfo hints = {};
  gaicb request = {};
};

void TakeAddresses(HostLookup& lookup, int error) {
  Located& one = *lookup.located;
  for (const addrinfo* found = lookup.request.ar_result; error == 0 && found != nullptr;
       found = found->ai_next) {
    if (one.addresses.size() == kMostAddressesHere) break;
    one.addresses.push_back(dat::Address(found->ai_addr, found->ai_addrlen).ToString());
  }
  if (one.addresses.empty()) one.problem = absl::StrCat(lookup.host, ": ", gai_strerror(error));
  if (error == 0) freeaddrinfo(lookup.request.ar_result);
}

}  // namespace

void ResolveHosts(std::vector<Located>& locations, absl::Duration most) {
  const absl::Time deadline = absl::Now() + most;
  auto* const lookups = new std::deque<HostLookup>();
  std::vector<gaicb*> requests;
  for (Located& one : locations) {
    if (!one.addresses.empty() || !one.problem.empty()) continue;
    HostLookup& lookup = lookups->emplace_back();
    lookup.located = &one;
    lookup.host = one.location.host;
    lookup.port = std::to_string(one.location.port == 0 ? dat::kDefaultPort : one.location.port);
    lookup.hints.ai_socktype = SOCK_STREAM;
    lookup.hints.ai_flags = AI_NUMERICSERV;
    lookup.request.ar_name = lookup.host.c_str();
    lookup.request.ar_service = lookup.port.c_str();
    lookup.request.ar_request = &lookup.hints;
    requests.push_back(&lookup.request);
  }
  if (requests.empty() ||
      getaddrinfo_a(GAI_NOWAIT, requests.data(), static_cast<int>(requests.size()), nullptr) != 0) {
    delete lookups;
    return;
  }
  bool is_late = false;
  for (HostLookup& lookup : *lookups) {
    int error = gai_error(&lookup.request);
    while (error == EAI_INPROGRESS && absl::Now() < deadline) {
      const gaicb* const one = &lookup.request;
      const timespec left = absl::ToTimespec(deadline - absl::Now());
      gai_suspend(&one, 1, &left);
      error = gai_error(&lookup.request);
    }
    is_late = is_late || error == EAI_INPROGRESS;
    if (error == EAI_INPROGRESS) {
      lookup.located->problem =
          absl::StrCat(lookup.host, ": no answer within ", absl::FormatDuration(most));
    } else {
      TakeAddresses(lookup, error);
    }
  }
  if (!is_late) delete lookups;
}

}  // namespace dafs::names
