// The parsers of DAFS names: configuration, file of names, locations, values of LDAP, and the
// answers of the helper. The first byte chooses one. A parser that accepts its input also accepts
// the text made from the result.
#include <string>
#include <tuple>

#include "client/names/answers.h"
#include "client/names/dns_service.h"
#include "client/names/ldap_service.h"
#include "client/names/location.h"
#include "client/names/name_file.h"
#include "client/names/names_conf.h"
#include "tests/fuzz/fuzz.h"

namespace dafs::names {
namespace {

void ReadLocation(const std::string& text) {
  const absl::StatusOr<Location> location = ParseLocation(text);
  if (!location.ok()) return;
  FUZZ_CHECK(location->path.starts_with("/"));
  FUZZ_CHECK(location->path.find("/../") == std::string::npos);
  Location again = *ParseLocation(ToString(*location));
  again.transport = location->transport;
  FUZZ_CHECK(again == *location);
}

void ReadAnswers(const std::string& text) {
  const absl::StatusOr<Answers> answers = ParseAnswers(text);
  if (!answers.ok()) return;
  const absl::StatusOr<Answers> again = ParseAnswers(ToJson(*answers));
  FUZZ_CHECK(again.ok() && *again == *answers);
}

void ReadValues(const std::string& text) {
  const size_t part = text.size() / 5;
  const absl::StatusOr<Location> ignored = LocationOf({.type = text.substr(0, part),
                                                       .host = text.substr(part, part),
                                                       .qualifier = text.substr(2 * part, part),
                                                       .path = text.substr(3 * part, part),
                                                       .version = text.substr(4 * part)});
  FUZZ_CHECK(NameFilter(text).size() <= 3 * text.size() + 64);
  if (const auto owner = SrvName(text, "example.com"); owner.ok()) FUZZ_CHECK(owner->size() < 254);
}

}  // namespace
}  // namespace dafs::names

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 5) {
    case 0:
      std::ignore = dafs::names::ParseNamesConf(text, "conf");
      break;
    case 1:
      std::ignore = dafs::names::FindInNameFile(text, "names", "a");
      break;
    case 2:
      dafs::names::ReadLocation(text);
      break;
    case 3:
      dafs::names::ReadAnswers(text);
      break;
    default:
      dafs::names::ReadValues(text);
      break;
  }
  return 0;
}
