#include "client/names/records.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "runtime/status_macros.h"
#include "runtime/text.h"

namespace dafs::names {
namespace {

absl::Status Bad(std::string why) { return absl::InvalidArgumentError(std::move(why)); }

// ---- The file of names --------------------------------------------------------------------------

absl::StatusOr<std::string> FileLine(const std::string& name, std::span<const Location> locations) {
  constexpr std::string_view kBlanks = " \t";
  if (name.find_first_of(kBlanks) != name.npos || name.starts_with('#')) {
    return Bad("the file of names has no names with blanks, or with '#' at the beginning");
  }
  std::string line = name;
  for (const Location& one : locations) {
    if (one.path.find_first_of(kBlanks) != one.path.npos) {
      return Bad("the file of names has no paths with blanks");
    }
    std::string text = ToString(one);  // HOST[:PORT]:/PATH
    if (!one.transport.empty()) {
      text.erase(text.size() - one.path.size() - 1, 1);  // the ':' before the path
      text.insert(0, one.transport == kRdma ? "rdma://" : "tcp://");
    }
    absl::StrAppend(&line, " ", text);
  }
  return line + "\n";
}

// ---- DNS ----------------------------------------------------------------------------------------

constexpr char kService[] = "_dafs._tcp.";

// As a zone file writes it: with a final dot if it is absolute, as every name with a dot.
absl::StatusOr<std::string> DomainName(const std::string& name, size_t most_bytes) {
  constexpr size_t kMostLabelBytes = 63;
  const auto is_plain = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
           c == '_';
  };
  const bool is_absolute = name.find('.') != name.npos;
  std::string_view text = name;
  if (text.ends_with('.')) text.remove_suffix(1);
  bool is_good = text.size() <= most_bytes;
  for (const absl::string_view part : absl::StrSplit(Text(text), '.')) {
    const std::string_view label = Std(part);
    is_good &= !label.empty() && label.size() <= kMostLabelBytes &&
               std::all_of(label.begin(), label.end(), is_plain);
  }
  if (!is_good) {
    return Bad(absl::StrCat(name, " is not a name for DNS: expected labels of 1 to 63 letters, ",
                            "digits, '-' and '_', and at most ", most_bytes, " bytes"));
  }
  return absl::StrCat(Text(text), is_absolute ? "." : "");
}

// A host name never looks like this: the last label of a domain has a letter.
bool IsAddress(std::string_view host) {
  return host.find(':') != host.npos || host.find_first_not_of("0123456789.") == host.npos;
}

absl::StatusOr<std::string> TextString(std::string_view key, std::string_view value) {
  constexpr size_t kMostBytes = 255;
  if (key.size() + value.size() > kMostBytes) {
    return Bad(absl::StrCat("a TXT record has at most 255 bytes in ", Text(key), "..."));
  }
  std::string text = absl::StrCat("\"", Text(key));
  for (const char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      text.append(1, '\\').append(1, c);
    } else if (byte < 0x20 || byte > 0x7e) {
      absl::StrAppendFormat(&text, "\\%03d", byte);
    } else {
      text.append(1, c);
    }
  }
  return text + "\"";
}

absl::StatusOr<std::string> ZoneLines(const std::string& name,
                                      std::span<const Location> locations) {
  constexpr size_t kMostBytes = 253;  // without the final dot
  ASSIGN_OR_RETURN(const std::string domain, DomainName(name, kMostBytes + 1 - sizeof(kService)));
  const std::string owner = absl::StrCat(kService, domain);
  std::string lines;
  std::vector<std::pair<std::string, uint16_t>> seen;
  for (const Location& one : locations) {
    if (IsAddress(one.host)) {
      return Bad(absl::StrCat("an SRV record needs a host name, not the address ", one.host,
                              "; give --host"));
    }
    ASSIGN_OR_RETURN(std::string host, DomainName(one.host, kMostBytes));
    std::pair<std::string, uint16_t> place(std::move(host), one.port);
    if (std::find(seen.begin(), seen.end(), place) != seen.end()) continue;  // another transport
    absl::StrAppend(&lines, owner, " SRV ", seen.size(), " 0 ", place.second, " ", place.first,
                    "\n");
    seen.push_back(std::move(place));
  }
  ASSIGN_OR_RETURN(const std::string path, TextString("path=", locations.front().path));
  ASSIGN_OR_RETURN(const std::string version, TextString("version=", locations.front().version));
  return absl::StrCat(lines, owner, " TXT ", path, " ", version, "\n");
}

// ---- LDAP ---------------------------------------------------------------------------------------

// A line of LDIF (RFC 2849): what is not safe there is in base64.
std::string LdifLine(std::string_view attribute, std::string_view value) {
  const auto is_safe = [](char c) { return c >= 0x20 && c < 0x7f; };
  const bool safe = std::all_of(value.begin(), value.end(), is_safe) && !value.ends_with(' ') &&
                    (value.empty() || std::string_view(" :<").find(value.front()) == value.npos);
  if (safe) return absl::StrCat(Text(attribute), ": ", Text(value), "\n");
  return absl::StrCat(Text(attribute), ":: ", absl::Base64Escape(Text(value)), "\n");
}

// The value of an attribute in a distinguished name (RFC 4514).
std::string DnValue(std::string_view value) {
  std::string escaped;
  for (size_t i = 0; i < value.size(); ++i) {
    const char c = value[i];
    const bool at_end = i == 0 || i + 1 == value.size();
    if (std::string_view(",+\"\\<>;=").find(c) != std::string_view::npos || (c == ' ' && at_end) ||
        (c == '#' && i == 0)) {
      escaped.append(1, '\\');
    }
    escaped.append(1, c);
  }
  return escaped;
}

absl::StatusOr<std::string> LdifEntries(const std::string& name,
                                        std::span<const Location> locations,
                                        const std::string& base) {
  if (base.empty()) {
    return Bad("LDIF needs the entry above the names: --base, such as ou=dafs,dc=example,dc=com");
  }
  const std::string dn = absl::StrCat("dafsName=", DnValue(name), ",", base);
  std::string text = absl::StrCat(LdifLine("dn", dn), "objectClass: dafsNameSpaceEntry\n",
                                  LdifLine("dafsName", name), "\n");
  int number = 0;
  for (const Location& one : locations) {
    const std::string cn = absl::StrFormat("%02d", ++number);  // they are ordered as texts
    absl::StrAppend(&text, LdifLine("dn", absl::StrCat("cn=", cn, ",", dn)),
                    "objectClass: dafsLocation\nobjectClass: datLocation\n", LdifLine("cn", cn));
    absl::StrAppend(&text, LdifLine("datTransportType", one.transport),
                    LdifLine("datTransportHostname", one.host),
                    LdifLine("datTransportConnectionQualifier", std::to_string(one.port)),
                    LdifLine("dafsDirectoryPath", one.path),
                    LdifLine("dafsProtocolVersion", one.version), "\n");
  }
  return text;
}

}  // namespace

absl::StatusOr<std::string> RecordsOf(RecordForm form, const std::string& name,
                                      std::span<const Location> locations,
                                      const std::string& base) {
  RETURN_IF_ERROR(CheckName(name));
  if (locations.empty()) return Bad("there is no location");
  if (locations.size() > kMostLocations) return Bad("more than 64 locations");
  switch (form) {
    case RecordForm::kFile:
      return FileLine(name, locations);
    case RecordForm::kDns:
      return ZoneLines(name, locations);
    case RecordForm::kLdif:
      return LdifEntries(name, locations, base);
  }
  return Bad("no such form");
}

}  // namespace dafs::names
