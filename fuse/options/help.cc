// --help of mount.dafs, made from the table of the options.
#include <algorithm>
#include <string>
#include <string_view>

#include "fuse/options/command_line.h"
#include "fuse/options/option_table.h"

namespace dafs::fuse {
namespace {

constexpr size_t kWidth = 103;      // of a line
constexpr size_t kTextColumn = 23;  // where the text of an option begins

constexpr std::string_view kBefore =
    R"(usage: mount.dafs SERVER[:PORT]:/EXPORT|NAME DIR [-fnrsvw] [-o option,...]
       mount -t dafs SERVER[:PORT]:/EXPORT|NAME DIR [-o option,...]

Mounts a DAFS export. Write an IPv6 address in brackets: [::1]:/data
A NAME, without ":" and "/", is looked up in a file, DNS or LDAP: names.conf in mount.dafs(8)

  -f, --foreground     stay in the foreground, log to standard error
                       (from mount(8), it means --fake: do everything except the mount)
  -v, --verbose        log more
  -r, -w               the same as -o ro, -o rw
  -s                   ignore unknown options
  -n                   accepted, without effect
  -h, --help           print this text
  -V, --version        print the version

Options, with their defaults; mount.dafs(8) has the details:
)";

constexpr std::string_view kAfter =
    R"(Options of mount(8) for all file systems (nosuid, nodev, noexec, noatime, ...) work;
_netdev, nofail, auto, noauto, user, users, x-* and comment= are accepted.

Exit status: 0 mounted, 1 bad usage or not permitted, 2 system error, 32 mount failed.
)";

std::string_view Heading(OptionGroup group) {
  switch (group) {
    case OptionGroup::kAccess:
      return "Access";
    case OptionGroup::kConnection:
      return "Connection";
    case OptionGroup::kSizes:
      return "Sizes";
    case OptionGroup::kCaching:
      return "Caching";
    case OptionGroup::kLocking:
      return "Locking";
    case OptionGroup::kOthers:
      return "Others";
  }
  return "";
}

// "proto=auto|tcp|rdma", "port=N", "acl | noacl"
std::string Usage(const OptionRow& row) {
  std::string usage(row.name);
  if (std::holds_alternative<Number>(row.kind)) usage += "=N";
  if (const Choice* choice = std::get_if<Choice>(&row.kind)) (usage += '=') += choice->names;
  if (const FreeText* text = std::get_if<FreeText>(&row.kind)) (usage += '=') += text->shown;
  if (!row.opposite.empty()) (usage += " | ") += row.opposite;
  return usage;
}

std::string HelpOf(const OptionRow& row) {
  std::string help(row.help);
  const Number* number = std::get_if<Number>(&row.kind);
  const size_t limits = help.find("{}");
  if (number == nullptr || limits == help.npos) return help;
  return help.replace(limits, 2,
                      std::to_string(number->least) + ".." + std::to_string(number->most));
}

// Appends `text` to `out`, whose last line ends at kTextColumn. Breaks lines at spaces; '\n' begins
// a new one.
void AppendWrapped(std::string_view text, std::string* out) {
  size_t column = kTextColumn;
  const auto begin_line = [&] {
    *out += '\n';
    out->append(kTextColumn, ' ');
    column = kTextColumn;
  };
  while (!text.empty()) {
    const size_t length = std::min(text.find_first_of(" \n"), text.size());
    const std::string_view word = text.substr(0, length);
    if (column > kTextColumn && column + 1 + length > kWidth) begin_line();
    if (column > kTextColumn) {
      *out += ' ';
      ++column;
    }
    *out += word;
    column += length;
    const bool breaks = length < text.size() && text[length] == '\n';
    text.remove_prefix(std::min(length + 1, text.size()));
    if (breaks) begin_line();
  }
  *out += '\n';
}

}  // namespace

std::string HelpText() {
  std::string text(kBefore);
  const std::span<const OptionRow> rows = OptionTable();
  for (size_t i = 0; i < rows.size(); ++i) {
    const OptionRow& row = rows[i];
    if (i == 0 || rows[i - 1].group != row.group) (text += Heading(row.group)) += '\n';
    std::string usage = "  " + Usage(row);
    while (i + 1 < rows.size() && rows[i + 1].help.empty()) usage += ", " + Usage(rows[++i]);
    if (usage.size() + 1 > kTextColumn) {
      text += usage + '\n';
      usage.clear();
    }
    text += usage;
    text.append(kTextColumn - usage.size(), ' ');
    AppendWrapped(HelpOf(row), &text);
  }
  return text += kAfter;
}

}  // namespace dafs::fuse
