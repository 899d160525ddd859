#include "client/names/answers.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/status_macros.h"

namespace dafs::names {
namespace {

using AnswerJson = nlohmann::ordered_json;

constexpr std::array<const char*, 4> kResultNames = {"found", "unknown", "away", "bad"};
constexpr size_t kMostAddressesOfLocation = 64;

absl::Status NoAnswer(const std::string& why) {
  return absl::DataLossError(absl::StrCat("dafs-names has sent no valid answer: ", why));
}

AnswerJson LocationJson(const Located& one) {
  AnswerJson json = {{"transport", one.location.transport}, {"host", one.location.host},
                     {"port", one.location.port},           {"path", one.location.path},
                     {"version", one.location.version},     {"addresses", one.addresses}};
  if (!one.problem.empty()) json["problem"] = one.problem;
  return json;
}

// Reads the fields of an object, and remembers whether one was missing or had another type.
class Fields {
 public:
  explicit Fields(const AnswerJson& json) : json_(json) {}
  bool ok() const { return ok_; }

  std::string Text(const char* name, bool may_miss = false) {
    const AnswerJson* const value = Find(name, may_miss);
    if (value == nullptr) return "";
    if (!value->is_string()) return Fail(), "";
    return value->get<std::string>();
  }
  uint64_t Number(const char* name, uint64_t most) {
    const AnswerJson* const value = Find(name, false);
    if (value == nullptr) return 0;
    if (!value->is_number_unsigned() || value->get<uint64_t>() > most) return Fail(), 0;
    return value->get<uint64_t>();
  }
  // Empty: missing.
  std::vector<AnswerJson> List(const char* name, size_t most) {
    const AnswerJson* const value = Find(name, false);
    if (value == nullptr) return {};
    if (!value->is_array() || value->size() > most) return Fail(), std::vector<AnswerJson>();
    return {value->begin(), value->end()};
  }

 private:
  const AnswerJson* Find(const char* name, bool may_miss) {
    if (json_.is_object()) {
      const auto found = json_.find(name);
      if (found != json_.end()) return &*found;
    }
    if (!may_miss) Fail();
    return nullptr;
  }
  void Fail() { ok_ = false; }

  const AnswerJson& json_;
  bool ok_ = true;
};

absl::StatusOr<Located> ParseLocated(const AnswerJson& json) {
  Located one;
  Fields fields(json);
  one.location.transport = fields.Text("transport");
  one.location.host = fields.Text("host");
  one.location.port = static_cast<uint16_t>(fields.Number("port", UINT16_MAX));
  one.location.path = fields.Text("path");
  one.location.version = fields.Text("version");
  one.problem = fields.Text("problem", true);
  for (const AnswerJson& address : fields.List("addresses", kMostAddressesOfLocation)) {
    if (!address.is_string()) return NoAnswer("an address");
    one.addresses.push_back(address.get<std::string>());
  }
  if (!fields.ok()) return NoAnswer("a location");
  RETURN_IF_ERROR(CheckHost(one.location.host));
  ASSIGN_OR_RETURN(one.location.path, CheckPath(one.location.path));
  return one;
}

absl::StatusOr<Answer> ParseAnswer(const AnswerJson& json) {
  Answer answer;
  Fields fields(json);
  answer.service = fields.Text("service");
  answer.message = fields.Text("message", true);
  const std::string result = fields.Text("result");
  const auto* const name = std::find(kResultNames.begin(), kResultNames.end(), result);
  if (name == kResultNames.end()) return NoAnswer("a result");
  answer.result = static_cast<Result>(name - kResultNames.begin());
  for (const AnswerJson& location : fields.List("locations", kMostLocations)) {
    ASSIGN_OR_RETURN(Located one, ParseLocated(location));
    answer.locations.push_back(std::move(one));
  }
  if (!fields.ok()) return NoAnswer("a service");
  if ((answer.result == Result::kFound) == answer.locations.empty()) return NoAnswer("locations");
  return answer;
}

}  // namespace

const Answer* FirstFound(const Answers& answers) {
  for (const Answer& answer : answers.services) {
    if (answer.result == Result::kFound) return &answer;
  }
  return nullptr;
}

std::string WhyNotFound(const Answers& answers) {
  const bool is_unknown =
      std::all_of(answers.services.begin(), answers.services.end(),
                  [](const Answer& answer) { return answer.result == Result::kUnknown; });
  std::string text = is_unknown ? "no such DAFS name" : "the DAFS name was not found";
  for (const Answer& answer : answers.services) {
    absl::StrAppend(&text, &answer == &answers.services.front() ? ": " : "; ", answer.service, ": ",
                    answer.message);
  }
  return text;
}

std::string ToJson(const Answers& answers) {
  AnswerJson services = AnswerJson::array();
  for (const Answer& answer : answers.services) {
    AnswerJson locations = AnswerJson::array();
    for (const Located& one : answer.locations) locations.push_back(LocationJson(one));
    AnswerJson json = {{"service", answer.service},
                       {"result", kResultNames[static_cast<size_t>(answer.result)]}};
    if (!answer.message.empty()) json["message"] = answer.message;
    json["locations"] = std::move(locations);
    services.push_back(std::move(json));
  }
  const AnswerJson json = {{"name", answers.name},
                           {"refresh_s", absl::ToInt64Seconds(answers.refresh)},
                           {"services", std::move(services)}};
  // Messages may have bytes of a service that are not UTF-8.
  return json.dump(2, ' ', false, AnswerJson::error_handler_t::replace) + "\n";
}

absl::StatusOr<Answers> ParseAnswers(std::string_view text) {
  const AnswerJson json = AnswerJson::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return NoAnswer("no JSON");
  Answers answers;
  Fields fields(json);
  answers.name = fields.Text("name");
  answers.refresh = absl::Seconds(std::max<uint64_t>(1, fields.Number("refresh_s", 86400)));
  for (const AnswerJson& service : fields.List("services", 3)) {
    ASSIGN_OR_RETURN(Answer answer, ParseAnswer(service));
    answers.services.push_back(std::move(answer));
  }
  if (!fields.ok()) return NoAnswer("the name");
  return answers;
}

}  // namespace dafs::names
