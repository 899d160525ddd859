#include "server/clients/passwords.h"

#include <crypt.h>
#include <openssl/crypto.h>
#include <string.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "runtime/files/secret_file.h"
#include "runtime/status_macros.h"
#include "server/store/objects/principal_pattern.h"
#include "wire/protocol/constants.h"

namespace dafs::server {
namespace {

constexpr size_t kMostBytes = size_t{1} << 20;
// The hash that is computed for a name that is not in an empty file: yescrypt, as mkpasswd makes
// it.
constexpr char kNobodysHash[] = "$y$j9T$1xvnrxp3mKzDyiKsGPRzQ0$";

// A line of the file.
struct Entry {
  std::string_view name;
  std::string_view hash;
  std::optional<Credential> user;  // none: the user of this machine with that name
};

absl::Status Bad(const std::string& file, absl::string_view why) {
  return absl::FailedPreconditionError(absl::StrCat("--password-file ", file, ": ", why));
}

absl::StatusOr<std::string> ReadAll(const std::string& file) {
  absl::StatusOr<std::string> text = ReadSecretFile(file, kMostBytes);
  if (text.ok()) return text;
  return absl::Status(text.status().code(),
                      absl::StrCat("--password-file ", text.status().message()));
}

bool ParseUser(absl::string_view uid, absl::string_view gids, Entry* entry) {
  Credential user;
  const std::vector<absl::string_view> numbers = absl::StrSplit(gids, ',');
  if (!absl::SimpleAtoi(uid, &user.uid) || user.uid == UINT32_MAX) return false;
  for (size_t i = 0; i < numbers.size(); ++i) {
    uint32_t gid = 0;
    if (!absl::SimpleAtoi(numbers[i], &gid) || gid == UINT32_MAX) return false;
    if (i == 0) user.gid = gid;
    user.groups.push_back(gid);
  }
  if (user.groups.size() > wire::kGroupsMax) return false;
  entry->user = std::move(user);
  return true;
}

// Returns what is wrong with a line; null: nothing.
const char* ParseLine(absl::string_view line, Entry* entry) {
  const std::vector<absl::string_view> parts = absl::StrSplit(line, ':');
  if (parts.size() != 2 && parts.size() != 4) {
    return "expected NAME:HASH or NAME:HASH:UID:GID[,GID ...]";
  }
  entry->name = {parts[0].data(), parts[0].size()};
  entry->hash = {parts[1].data(), parts[1].size()};
  if (!IsPasswordName(entry->name)) {
    return "a name has 1 to 64 letters, digits and any of -._";
  }
  if (crypt_checksalt(std::string(parts[1]).c_str()) != CRYPT_SALT_OK) {
    return "not a hash of a method for new passwords; make one with mkpasswd";
  }
  if (parts.size() == 4 && !ParseUser(parts[2], parts[3], entry)) {
    return "UID and GID are numbers, and GID may be several, separated by commas";
  }
  return nullptr;
}

absl::StatusOr<std::vector<Entry>> Parse(const std::string& file, const std::string& text) {
  std::vector<Entry> entries;
  absl::flat_hash_set<std::string_view> names;
  size_t number = 0;
  for (const absl::string_view line : absl::StrSplit(absl::string_view(text), '\n')) {
    ++number;
    if (absl::StripAsciiWhitespace(line).empty() || line.front() == '#') continue;
    Entry entry;
    const char* wrong = ParseLine(line, &entry);
    if (wrong == nullptr && !names.insert(entry.name).second) wrong = "the name is given twice";
    if (wrong != nullptr) return Bad(file, absl::StrCat("line ", number, ": ", wrong));
    entries.push_back(std::move(entry));
  }
  return entries;
}

// Whether `password` has this hash. Takes as long for a wrong one.
bool Fits(std::string_view password, std::string_view hash) {
  if (password.size() >= CRYPT_MAX_PASSPHRASE_SIZE ||
      password.find('\0') != std::string_view::npos) {
    return false;
  }
  // 32 KiB, and they hold the password.
  auto data = std::make_unique<crypt_data>();
  char phrase[CRYPT_MAX_PASSPHRASE_SIZE] = {};
  std::memcpy(phrase, password.data(), password.size());
  const std::string setting(hash);
  const char* const made = crypt_r(phrase, setting.c_str(), data.get());
  const bool fits = made != nullptr && made[0] != '*' && std::strlen(made) == hash.size() &&
                    CRYPTO_memcmp(made, hash.data(), hash.size()) == 0;
  explicit_bzero(phrase, sizeof phrase);
  explicit_bzero(data.get(), sizeof *data);
  return fits;
}

}  // namespace

absl::Status CheckPasswordFile(const std::string& file) {
  ASSIGN_OR_RETURN(const std::string text, ReadAll(file));
  return Parse(file, text).status();
}

absl::Status CheckPassword(const std::string& file, std::string_view name,
                           std::string_view password, Credential* user) {
  ASSIGN_OR_RETURN(const std::string text, ReadAll(file));
  ASSIGN_OR_RETURN(const std::vector<Entry> entries, Parse(file, text));
  const auto entry = std::find_if(entries.begin(), entries.end(),
                                  [name](const Entry& each) { return each.name == name; });
  const bool is_known = entry != entries.end();
  const std::string_view nobodys = entries.empty() ? kNobodysHash : entries.front().hash;
  if (!Fits(password, is_known ? entry->hash : nobodys) || !is_known) {
    return absl::UnauthenticatedError(is_known ? "a wrong password" : "a name without a password");
  }
  if (entry->user.has_value()) {
    *user = *entry->user;
  } else if (CredentialOfUser(std::string(name), user) != wire::DafsStatus::kOk) {
    return absl::UnauthenticatedError(
        "a name that is not a user of this machine; add the user, or UID and GID to its line of "
        "--password-file");
  }
  return absl::OkStatus();
}

}  // namespace dafs::server
