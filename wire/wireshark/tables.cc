#include "wire/wireshark/tables.h"

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/text.h"
#include "wire/codec/codec.h"
#include "wire/messages/chain.h"
#include "wire/messages/messages.h"
#include "wire/protocol/status.h"
#include "wire/wireshark/describer.h"

namespace dafs::wire::wireshark {
namespace {

constexpr uint32_t kStatusesEnd = 65536;  // private ones begin at 16000

std::vector<uint32_t> KnownStatuses() {
  std::vector<uint32_t> known;
  for (uint32_t number = 0; number < kStatusesEnd; ++number) {
    if (IsKnown(static_cast<DafsStatus>(number))) known.push_back(number);
  }
  return known;
}

void ForEachStatus(const auto& visit) {
  static const std::vector<uint32_t> known = KnownStatuses();
  for (const uint32_t number : known) visit(number, static_cast<DafsStatus>(number));
}

std::string Statuses() {
  std::string names;
  std::string conflicts;
  ForEachStatus([&](uint32_t number, DafsStatus status) {
    absl::StrAppend(&names, "[", number, "]='", Text(Name(status)), "',\n");
    if (internal::IsLockConflict(status)) absl::StrAppend(&conflicts, "[", number, "]=true,");
  });
  return absl::StrCat("local statuses = {\n", names, "}\nlocal lock_conflicts = {", conflicts,
                      "}\n");
}

std::string Enums(const Shared& shared) {
  std::string text = "local enums = {\n";
  for (const auto& [name, values] : shared.enums) {
    absl::StrAppend(&text, name, "={");
    for (size_t value = 0; value < values.size(); ++value) {
      if (!values[value].empty())
        absl::StrAppend(&text, "[", value, "]='", Text(values[value]), "',");
    }
    absl::StrAppend(&text, "},\n");
  }
  return text + "}\n";
}

template <class A>
std::string Attributes(std::string_view variable, Shared& shared) {
  Describer describer(shared);
  A attributes;
  A::Attrs(attributes, describer);
  return absl::StrCat("local ", Text(variable), " = {\n", describer.Take(), "}\n");
}

// The fields of arguments or results, whose fixed section has `size` bytes.
template <class Body>
std::string Fields(Shared& shared, size_t size) {
  Body body;
  if constexpr (std::is_same_v<Body, typename ProcTraits<Body::kProc>::Args>) {
    shared.is_replaced = [&body](const void* field) {
      return field == ChainFileHandle(body) || field == ChainStateId(body);
    };
  }
  Describer describer(shared);
  Body::Fields(body, describer);
  shared.is_replaced = Shared().is_replaced;
  if (describer.size() != size) {
    throw std::logic_error(absl::StrCat(Text(Name(Body::kProc)), ": the fields take ",
                                        describer.size(), " bytes, the table of procedures says ",
                                        size));
  }
  return describer.Take();
}

// The errors with which a response has a result, by the claim of OPEN.
std::string Carries(Proc proc) {
  std::string text;
  for (uint32_t claim = 0; IsKnown(static_cast<OpenClaimType>(claim)); ++claim) {
    std::string with;
    ForEachStatus([&](uint32_t number, DafsStatus status) {
      if (number != 0 && CarriesResult(proc, status, static_cast<OpenClaimType>(claim))) {
        absl::StrAppend(&with, "[", number, "]=true,");
      }
    });
    if (!with.empty() && (claim == 0 || proc == Proc::kOpen)) {
      absl::StrAppend(&text, "[", claim, "]={", with, "},");
    }
  }
  return text;
}

std::string Procedures(Shared& shared) {
  std::string text = "local procedures = {\n";
  for (const ProcInfo& row : kProcedures) {
    absl::StrAppend(&text, "[", static_cast<uint32_t>(row.number), "]={name='", Text(row.name),
                    "',args_size=", row.args_size, ",res_size=", row.res_size);
    VisitProc(row.number, [&]<Proc kProc>() {
      using Args = typename ProcTraits<kProc>::Args;
      absl::StrAppend(&text, ",args={", Fields<Args>(shared, row.args_size), "},res={",
                      Fields<ResOf<Args>>(shared, row.res_size), "}");
    });
    absl::StrAppend(&text, ",carries={", Carries(row.number), "}},\n");
  }
  return text + "}\n";
}

}  // namespace

std::string Tables() {
  Shared shared;
  // Enums are complete only after all messages.
  const std::string attributes = Attributes<FileAttributes>("file_attributes", shared) +
                                 Attributes<FsAttributes>("fs_attributes", shared);
  const std::string procedures = Procedures(shared);
  return absl::StrCat(Statuses(), Enums(shared), attributes, procedures);
}

}  // namespace dafs::wire::wireshark
