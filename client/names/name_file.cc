#include "client/names/name_file.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "client/names/text_lines.h"
#include "runtime/status_macros.h"

namespace dafs::names {
namespace {

absl::StatusOr<std::vector<Located>> ParseNameLine(const std::vector<std::string_view>& words) {
  RETURN_IF_ERROR(CheckName(words.front()));
  if (words.size() == 1) {
    return absl::InvalidArgumentError("no location; expected NAME SERVER[:PORT]:/EXPORT ...");
  }
  if (words.size() > kMostLocations + 1)
    return absl::InvalidArgumentError("more than 64 locations");
  std::vector<Located> all;
  for (size_t i = 1; i < words.size(); ++i) {
    absl::StatusOr<Location> location = ParseLocation(words[i]);
    if (!location.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(std::string(words[i].substr(0, 80)), ": ", location.status().message()));
    }
    all.push_back({*std::move(location), {}, {}});
  }
  return all;
}

}  // namespace

absl::StatusOr<std::vector<Located>> FindInNameFile(std::string_view text, const std::string& file,
                                                    std::string_view name) {
  std::map<std::string_view, int> lines;
  std::vector<Located> found;
  absl::Status bad;
  ForEachLine(text, [&](int number, std::string_view line) {
    const std::vector<std::string_view> words = Words(line);
    absl::StatusOr<std::vector<Located>> locations = ParseNameLine(words);
    const auto [first, is_new] = lines.emplace(words.front(), number);
    std::string why(locations.status().message());
    if (locations.ok() && !is_new) {
      why = absl::StrCat(std::string(words.front()), " is also on line ", first->second);
    }
    if (!why.empty()) {
      bad = absl::InvalidArgumentError(absl::StrCat(file, ", line ", number, ": ", why));
      return false;
    }
    if (words.front() == name) found = *std::move(locations);
    return true;
  });
  RETURN_IF_ERROR(bad);
  if (found.empty()) {
    return absl::NotFoundError(absl::StrCat(file, " has no line for ", std::string(name)));
  }
  return found;
}

absl::StatusOr<std::vector<Located>> AskFile(const NamesConf& conf, const std::string& name) {
  const absl::StatusOr<std::string> text = ReadTextFile(conf.file);
  if (absl::IsNotFound(text.status())) {
    return absl::NotFoundError(absl::StrCat("there is no ", conf.file));
  }
  RETURN_IF_ERROR(text.status());
  return FindInNameFile(*text, conf.file, name);
}

}  // namespace dafs::names
