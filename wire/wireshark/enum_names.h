// The names of enumerators, as this compiler spells them: value 3 of LockType is "ReadBlocking".
// Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dafs::wire::wireshark {

// No enumeration of the protocol has a greater value. Describer checks it.
inline constexpr uint32_t kEnumValues = 16;

// For example "dafs::wire::LockType::kRead"; "(dafs::wire::LockType)9" for a value without a name.
template <auto kValue>
constexpr std::string_view Spelling() {
  const std::string_view function = __PRETTY_FUNCTION__;
  const size_t start = function.find("kValue = ") + 9;
  return function.substr(start, function.find_first_of(";]", start) - start);
}

// "Read" for LockType::kRead; empty for a value without a name.
template <auto kValue>
constexpr std::string_view EnumeratorName() {
  const std::string_view spelling = Spelling<kValue>();
  const size_t name = spelling.rfind("::k");
  if (spelling.front() == '(' || name == spelling.npos) return {};
  return spelling.substr(name + 3);
}

// "LockType".
template <class Enum>
constexpr std::string_view EnumName() {
  constexpr std::string_view kSpelling =
      Spelling<static_cast<Enum>(0xffff)>();  // "(...::LockType)65535"
  constexpr size_t kEnd = kSpelling.rfind(')');
  constexpr size_t kStart = kSpelling.rfind("::", kEnd) + 2;
  return kSpelling.substr(kStart, kEnd - kStart);
}

// The names of the values 0 .. kEnumValues - 1.
template <class Enum>
std::vector<std::string_view> EnumeratorNames() {
  return []<size_t... kIndex>(std::index_sequence<kIndex...>) {
    return std::vector<std::string_view>{EnumeratorName<static_cast<Enum>(kIndex)>()...};
  }
  (std::make_index_sequence<kEnumValues>());
}

}  // namespace dafs::wire::wireshark
