// The places that a mount of a name tries: the usable locations of an answer. Locations with the
// same export path form one place. Spec: A.4.2 (the path is expected to be the same for all
// transports of a host), A.5. Values and pure functions; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client/names/answers.h"
#include "wire/dat/address.h"

namespace dafs::names {

struct Transports {
  bool tcp = true;
  bool rdma = true;
};

struct Place {
  Location location;                   // the first one of this path
  std::vector<std::string> addresses;  // of all locations of this path, at most kMostAddresses
};
inline constexpr size_t kMostAddresses = 64;

// In the order of `locations`. `unused` is for people: the locations that were left out, and why.
std::vector<Place> PlacesOf(const std::vector<Located>& locations, const Transports& transports,
                            std::string* unused);

}  // namespace dafs::names
