#include "server/daemon/config_parser.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <sstream>
#include <system_error>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "runtime/files/whole_file.h"
#include "runtime/status_macros.h"
#include "runtime/text.h"
#include "server/daemon/arguments.h"
#include "server/daemon/config_file.h"
#include "server/store/objects/principal_pattern.h"
#include "server/store/system/kill_switch.h"
#include "wire/auth/idmap/id_domain.h"

namespace dafs::server {
namespace {

constexpr size_t kMostConfigBytes = 64 << 20;

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  absl::StatusOr<std::string> text = ReadWholeFile(path, kMostConfigBytes);
  if (text.ok()) return text;
  return absl::InvalidArgumentError(absl::StrCat("--config ", text.status().message()));
}

// The argument of --config, needed before the rest is parsed.
std::string ConfigPath(const std::vector<std::string>& arguments) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--config" && i + 1 < arguments.size()) return arguments[i + 1];
    if (arguments[i].rfind("--config=", 0) == 0) return arguments[i].substr(9);
  }
  return "";
}

constexpr absl::string_view kExport = "--export=";

// Parses `arguments` in their order. Stores the texts of --help and --version in config.answer.
// kNotFound: an unknown option. Other errors: kInvalidArgument.
absl::Status ParseArguments(std::vector<std::string> arguments, Config& config, Arguments& values) {
  CLI::App app("dafsd serves directories over DAFS, the Direct Access File System protocol.",
               "dafsd");
  DeclareOptions(app, config, values);
  std::reverse(arguments.begin(), arguments.end());  // CLI11 takes its arguments from the back
  try {
    app.parse(arguments);
  } catch (const CLI::ExtrasError& error) {
    return absl::NotFoundError(error.what());
  } catch (const CLI::ParseError& error) {
    std::ostringstream out, err;
    if (app.exit(error, out, err) != 0) return absl::InvalidArgumentError(error.what());
    config.answer = out.str();
  }
  return absl::OkStatus();
}

// Checks one line of a file by itself, so that the message names its place.
absl::Status CheckLine(const ConfigLine& line) {
  Config config;
  Arguments values;
  absl::Status status = ParseArguments({line.argument}, config, values);
  if (status.ok()) status = ConvertOptions(values, config);
  if (status.ok() && !config.answer.empty()) {
    status = absl::InvalidArgumentError(absl::StrCat(line.argument, " is for the command line"));
  }
  if (status.ok()) return status;
  const std::string key = line.argument.substr(2, line.argument.find('=') - 2);
  const std::string what = absl::IsNotFound(status) ? absl::StrCat("unknown key `", key, "`")
                                                    : std::string(status.message());
  return absl::InvalidArgumentError(absl::StrCat(line.place, ": ", what, "; see dafsd.conf(5)"));
}

// The lines of the file of --config, checked; none without a file.
absl::StatusOr<std::vector<ConfigLine>> ReadLines(const std::vector<std::string>& arguments) {
  const std::string path = ConfigPath(arguments);
  if (path.empty()) return std::vector<ConfigLine>();
  ASSIGN_OR_RETURN(std::string text, ReadFile(path));
  ASSIGN_OR_RETURN(std::vector<ConfigLine> lines, ParseConfigFile(text, path));
  for (const ConfigLine& line : lines) RETURN_IF_ERROR(CheckLine(line));
  return lines;
}

// The place of the first export that does not fit to those before it.
std::string PlaceOfMisfit(const std::vector<Export>& exports,
                          const std::vector<std::string>& places) {
  size_t fits = 0, fails = exports.size();
  while (fails - fits > 1) {
    const size_t middle = fits + (fails - fits) / 2;
    const std::vector<Export> some(exports.begin(),
                                   exports.begin() + static_cast<std::ptrdiff_t>(middle));
    (CheckExports(some).ok() ? fits : fails) = middle;
  }
  return fails == 0 ? "" : places[fails - 1];
}

}  // namespace

absl::StatusOr<std::vector<Export>> ReadExports(const std::vector<std::string>& arguments,
                                                std::vector<std::string>* others) {
  Config config;
  Arguments values;
  // The command line without the file, which comes first, as at the start.
  RETURN_IF_ERROR(ParseArguments(arguments, config, values));
  std::vector<Export> exports;
  std::vector<std::string> places;
  ASSIGN_OR_RETURN(const std::vector<ConfigLine> lines, ReadLines(arguments));
  for (const ConfigLine& line : lines) {
    absl::string_view text = line.argument;
    if (absl::ConsumePrefix(&text, kExport)) {
      ASSIGN_OR_RETURN(Export parsed, ParseExport(Std(text)));
      exports.push_back(std::move(parsed));
      places.push_back(line.place);
    } else if (others != nullptr) {
      others->push_back(line.argument);
    }
  }
  for (const std::string& text : values.exports) {
    ASSIGN_OR_RETURN(Export parsed, ParseExport(text));
    exports.push_back(std::move(parsed));
    places.emplace_back("command line");
  }
  const absl::Status status = CheckExports(exports);
  if (status.ok()) return exports;
  const std::string place =
      exports.empty() ? ConfigPath(arguments) : PlaceOfMisfit(exports, places);
  return absl::InvalidArgumentError(
      absl::StrCat(place, place.empty() ? "" : ": ", status.message()));
}

std::string WithPlaceOfExport(const std::vector<std::string>& arguments, std::string_view message) {
  const absl::StatusOr<std::vector<ConfigLine>> lines = ReadLines(arguments);
  for (const ConfigLine& line : lines.ok() ? *lines : std::vector<ConfigLine>()) {
    absl::string_view text = line.argument;
    if (!absl::ConsumePrefix(&text, kExport)) continue;
    const absl::StatusOr<Export> parsed = ParseExport(Std(text));
    if (parsed.ok() && absl::StartsWith(Text(message), absl::StrCat("export ", parsed->name, "=",
                                                                    parsed->directory, ": "))) {
      return absl::StrCat(line.place, ": ", Text(message));
    }
  }
  return std::string(message);
}

void MakeConfigAbsolute(std::vector<std::string>& arguments) {
  const std::string path = ConfigPath(arguments);
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  if (path.empty() || error) return;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--config" && i + 1 < arguments.size()) arguments[++i] = absolute.string();
    if (arguments[i].rfind("--config=", 0) == 0) arguments[i] = "--config=" + absolute.string();
  }
}

absl::StatusOr<Config> ParseConfig(const std::vector<std::string>& arguments) {
  // The file comes first: of options with one value the last wins, so the command line overrides.
  std::vector<std::string> all;
  ASSIGN_OR_RETURN(const std::vector<ConfigLine> lines, ReadLines(arguments));
  all.reserve(lines.size() + arguments.size());
  for (const ConfigLine& line : lines) all.push_back(line.argument);
  all.insert(all.end(), arguments.begin(), arguments.end());

  Config config;
  Arguments values;
  absl::Status parsed = ParseArguments(std::move(all), config, values);
  if (!parsed.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(parsed.message(), "; see dafsd --help"));
  }
  if (!config.answer.empty()) return config;
  if (values.exports.empty()) {
    return absl::InvalidArgumentError("nothing to serve; give --export /NAME=DIR");
  }
  RETURN_IF_ERROR(ConvertOptions(values, config));
  if (config.server.tls.cert_file.empty() != config.server.tls.key_file.empty()) {
    return absl::InvalidArgumentError("--tls-cert and --tls-key are needed together");
  }
  if (config.server.tls.cert_file.empty() && !config.server.tls.ca_file.empty()) {
    return absl::InvalidArgumentError("--tls-ca needs --tls-cert and --tls-key");
  }
  if (!config.server.password_file.empty() && config.server.tls.cert_file.empty()) {
    return absl::InvalidArgumentError(
        "--password-file needs --tls-cert and --tls-key: passwords are taken over TLS only");
  }
  for (const std::string& pattern : config.server.trusted) {
    absl::Status status = CheckPrincipalPattern(pattern);
    if (!status.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("--trusted: ", status.message()));
    }
  }
  if (!config.id_domain.empty() && !auth::IsIdDomain(config.id_domain)) {
    return absl::InvalidArgumentError(absl::StrCat("--id-domain: '",
                                                   absl::CHexEscape(config.id_domain),
                                                   "' is not a domain; give one like example.com"));
  }
  if (config.server.state_dir.empty()) {
    return absl::InvalidArgumentError("no state directory; give --state-dir DIR");
  }
  if (!values.kill_at.empty()) RETURN_IF_ERROR(ArmKillSwitch(values.kill_at));
  if (config.pid_file.empty()) config.pid_file = config.server.state_dir + "/dafsd.pid";
  return config;
}

}  // namespace dafs::server
