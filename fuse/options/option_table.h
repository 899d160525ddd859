// The table of the mount options. The parser and --help are made from it, and scripts/check-options
// compares the manual with it. Pure lookups; any thread.
// CONTRIBUTING.md says how to add an option.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "absl/status/status.h"
#include "fuse/options/options.h"

namespace dafs::fuse {

// The kinds of options. Each has a function that sets the field.

// NAME, or the word for the opposite.
struct Word {
  void (*set)(Options& options, bool is_name);
};
// NAME=N, a number from `least` to `most`.
struct Number {
  uint32_t least;
  uint32_t most;
  void (*set)(Options& options, uint32_t number);
  bool clamps = false;  // a positive value out of range becomes the nearest one in range
};
// NAME=ONE|OF|THESE. The enumerators of the field are in the order of the names.
struct Choice {
  std::string_view names;
  void (*set)(Options& options, size_t index);
  std::string_view synonyms = {};  // as `names`
};
// NAME=`shown`. Returns why the value is bad; empty: it is set.
struct FreeText {
  std::string_view shown;
  std::string (*set)(Options& options, std::string_view value);
};
// A flag of mount(2), or an option that the whole list decides (ParseOptions).
struct Elsewhere {};

using OptionKind = std::variant<Word, Number, Choice, FreeText, Elsewhere>;

enum class OptionGroup : uint8_t { kAccess, kConnection, kSizes, kCaching, kLocking, kOthers };

struct OptionRow {
  OptionGroup group;
  std::string_view name;
  std::string_view opposite;  // of a word; empty: none
  OptionKind kind;
  // The text of --help; {} stands for the limits of the number. Empty: the same as the row before.
  std::string_view help;
};

std::span<const OptionRow> OptionTable();

// Returns the row of `option`, which is written as after -o; nullptr: no row.
const OptionRow* FindOption(std::string_view option);

// Applies `option`, which belongs to `row`. Fails with kInvalidArgument and a one-line reason.
absl::Status ApplyOptionOf(const OptionRow& row, std::string_view option, Options& options);

// The error for a bad option of -o.
absl::Status BadOption(std::string_view option, std::string_view why);

}  // namespace dafs::fuse
