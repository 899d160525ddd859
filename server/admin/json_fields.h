// The members of a report that texts and sums are made of.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>

namespace dafs::server {

// json[name], which must be a number that is not negative.
inline uint64_t NumberOf(const nlohmann::ordered_json& json, const char* name) {
  return json[name].get<uint64_t>();
}

}  // namespace dafs::server
