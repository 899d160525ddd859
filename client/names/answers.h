// The answers of the name services for a name, and their text as JSON: the output of the helper
// dafs-names, and of `dafsctl names --json`. Values and pure functions; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/names/location.h"

namespace dafs::names {

enum class Result : uint8_t {
  kFound,
  kUnknown,  // the service does not have the name
  kAway,     // the service did not answer
  kBad,      // the service, or its entry, is wrong
};

struct Answer {
  std::string service;  // "file", "dns" or "ldap"
  Result result = Result::kUnknown;
  std::string message;             // why it is not kFound
  std::vector<Located> locations;  // with kFound: at least one
  bool operator==(const Answer&) const = default;
};

struct Answers {
  std::string name;
  std::vector<Answer> services;  // in the order of names.conf, those that were queried
  absl::Duration refresh = absl::Minutes(10);
  bool operator==(const Answers&) const = default;
};

// The first service that has the name; null: none.
const Answer* FirstFound(const Answers& answers);
// For people, if no service has the name: "no such DAFS name: file: ...; dns: ...".
std::string WhyNotFound(const Answers& answers);

std::string ToJson(const Answers& answers);
// kDataLoss: `text` is not what ToJson returns.
absl::StatusOr<Answers> ParseAnswers(std::string_view text);

}  // namespace dafs::names
