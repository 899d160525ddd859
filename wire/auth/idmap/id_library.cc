#include "wire/auth/idmap/id_library.h"

#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

// They declare no linkage, and no types.
extern "C" {
#include <nfsidmap.h>
}

namespace dafs::auth {
namespace {

using Kind = IdQuestion::Kind;
using Outcome = IdAnswer::Outcome;

// The plug-in "static" copies names of its configuration without a bound.
constexpr size_t kNameBuffer = size_t{64} << 10;
constexpr size_t kFirstGroups = 128;

char secname[] = "krb5";
// The last message of the library, which by default would log each unknown name that a peer sends.
char last_message[256];

void Remember(const char* format, ...) __attribute__((format(printf, 1, 2)));
void Remember(const char* format, ...) {
  va_list values;
  va_start(values, format);
  vsnprintf(last_message, sizeof(last_message), format, values);
  va_end(values);
}

// The library returns negative error numbers; its plug-in "static" also positive ones.
int ErrorOf(int result) { return std::abs(result); }

// EINVAL is a name of another domain.
bool IsNone(int error) { return error == ENOENT || error == EINVAL || error == ESRCH; }

IdAnswer None() { return {.outcome = Outcome::kNone}; }
IdAnswer Failed(int error) {
  return {.outcome = Outcome::kFailed, .text = absl::StrCat("libnfsidmap: ", std::strerror(error))};
}

// The files that libnfsidmap reads for `config`, in its order: later ones override.
std::vector<std::string> FilesOf(const std::string& config) {
  namespace fs = std::filesystem;
  std::error_code error;
  std::vector<std::string> files;
  if (fs::exists(config, error)) files.push_back(config);
  std::vector<std::string> further;
  for (fs::directory_iterator entry(config + ".d", error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename();
    if (name.front() != '.' && entry->path().extension() == ".conf") {
      further.push_back(entry->path());
    }
  }
  std::sort(further.begin(), further.end(), [](const std::string& a, const std::string& b) {
    return strverscmp(a.c_str(), b.c_str()) < 0;
  });
  files.insert(files.end(), further.begin(), further.end());
  return files;
}

// A configuration file that includes those of `config` and then sets the domain. The library
// ignores an "include" outside a section.
std::string WithDomain(const std::string& domain, const std::string& config) {
  std::string text;
  for (const std::string& file : FilesOf(config)) {
    absl::StrAppend(&text, "[dafs]\ninclude = \"", file, "\"\n");
  }
  absl::StrAppend(&text, "[General]\nDomain = ", domain, "\n");
  return text;
}

// The path of a file without a name that has `text`; it lasts as long as this process. The library
// opens it several times.
absl::StatusOr<std::string> FileWith(const std::string& text) {
  const int file = memfd_create("idmapd.conf", MFD_CLOEXEC);
  if (file < 0 || write(file, text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    return absl::UnavailableError(absl::StrCat("idmapd.conf: ", std::strerror(errno)));
  }
  return absl::StrCat("/proc/self/fd/", file);
}

}  // namespace

absl::StatusOr<std::unique_ptr<IdLibrary>> IdLibrary::Open(const std::string& domain,
                                                           const std::string& config) {
  static std::string path;  // the library keeps the pointer
  path = config;
  if (!domain.empty()) {
    absl::StatusOr<std::string> file = FileWith(WithDomain(domain, config));
    if (!file.ok()) return file.status();
    path = *std::move(file);
  }
  nfs4_set_debug(0, Remember);
  last_message[0] = '\0';
  char effective[NFS4_MAX_DOMAIN_LEN] = "";
  int error = ErrorOf(nfs4_init_name_mapping(path.data()));
  if (error == 0) {
    error = ErrorOf(nfs4_get_default_domain(nullptr, effective, sizeof(effective)));
  }
  if (error != 0) {
    return absl::UnavailableError(
        absl::StrCat(config, ": ", last_message[0] == '\0' ? std::strerror(error) : last_message));
  }
  return std::unique_ptr<IdLibrary>(new IdLibrary(effective));
}

// Does not use nfs4_owner_to_uid: that returns 12 for "12x", and 65534 for any other unknown name.
// An owner that a client sets must be known, so `Nobody-User` and `Nobody-Group` have no effect.
IdAnswer IdLibrary::Id(const IdQuestion& question) const {
  const bool is_user = question.kind == Kind::kUserId;
  std::string name = question.name;
  uint32_t id = kNoId;
  const int error =
      ErrorOf(is_user ? nfs4_name_to_uid(name.data(), &id) : nfs4_name_to_gid(name.data(), &id));
  if (error != 0 && !IsNone(error)) return Failed(error);
  // Without a plug-in that can answer the library returns 0, and sets nothing.
  return error != 0 || id == kNoId ? None() : IdAnswer{.outcome = Outcome::kFound, .id = id};
}

IdAnswer IdLibrary::Name(const IdQuestion& question) const {
  std::string domain = domain_;
  std::string name(kNameBuffer, '\0');
  const int error =
      ErrorOf(question.kind == Kind::kUserName
                  ? nfs4_uid_to_name(question.id, domain.data(), name.data(), name.size())
                  : nfs4_gid_to_name(question.id, domain.data(), name.data(), name.size()));
  if (error != 0 && !IsNone(error)) return Failed(error);
  name.resize(std::strlen(name.c_str()));
  if (error != 0 || !IsIdName(name)) return None();
  return {.outcome = Outcome::kFound, .text = std::move(name)};
}

IdAnswer IdLibrary::User(const IdQuestion& question) const {
  IdAnswer answer = {.outcome = Outcome::kFound, .id = kNoId, .gid = kNoId};
  std::string principal = question.name;
  int error = ErrorOf(nfs4_gss_princ_to_ids(secname, principal.data(), &answer.id, &answer.gid));
  if (error != 0 && !IsNone(error)) return Failed(error);
  if (error != 0 || answer.id == kNoId || answer.gid == kNoId) return None();
  int count = 0;
  for (size_t size = kFirstGroups;;) {
    answer.groups.resize(size);
    count = static_cast<int>(size);
    error = ErrorOf(
        nfs4_gss_princ_to_grouplist(secname, principal.data(), answer.groups.data(), &count));
    if (error != ERANGE || size == kMostMappedGroups) break;
    // `count` is what is needed, or unchanged.
    size = std::min(std::max(size * 2, static_cast<size_t>(count)), kMostMappedGroups);
  }
  if (error != 0 && !IsNone(error)) return Failed(error);
  answer.groups.resize(error == 0 ? static_cast<size_t>(count) : 0);
  return answer;
}

IdAnswer IdLibrary::Answer(const IdQuestion& question) const {
  switch (question.kind) {
    case Kind::kUserId:
    case Kind::kGroupId:
      return Id(question);
    case Kind::kUserName:
    case Kind::kGroupName:
      return Name(question);
    case Kind::kPrincipal:
      return User(question);
  }
  return None();
}

}  // namespace dafs::auth
