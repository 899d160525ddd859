#include "client/names/places.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace dafs::names {
namespace {

// Empty: nothing.
std::string WhatPrevents(const Located& one, const Transports& transports) {
  const std::string& type = one.location.transport;
  const bool is_usable =
      type.empty() || (type == kIwarp && transports.tcp) || (type == kRdma && transports.rdma);
  if (!is_usable) return absl::StrCat("this mount cannot use transport ", type);
  if (!IsSpoken(one.location.version)) {
    return absl::StrCat("DAFS version ", one.location.version, " is not supported");
  }
  if (one.addresses.empty()) return one.problem.empty() ? "no address" : one.problem;
  return "";
}

}  // namespace

std::vector<Place> PlacesOf(const std::vector<Located>& locations, const Transports& transports,
                            std::string* unused) {
  std::vector<Place> places;
  for (const Located& one : locations) {
    const std::string why = WhatPrevents(one, transports);
    if (!why.empty()) {
      absl::StrAppend(unused, unused->empty() ? "" : "; ", ToString(one.location), ": ", why);
      continue;
    }
    auto place = std::find_if(places.begin(), places.end(), [&](const Place& other) {
      return other.location.path == one.location.path;
    });
    if (place == places.end()) place = places.insert(places.end(), {one.location, {}});
    for (const std::string& address : one.addresses) {
      std::vector<std::string>& known = place->addresses;
      if (known.size() == kMostAddresses) break;
      if (std::find(known.begin(), known.end(), address) == known.end()) known.push_back(address);
    }
  }
  return places;
}

}  // namespace dafs::names
