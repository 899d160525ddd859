#include "wire/rpcrdma/properties.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace dafs::rpcrdma {
namespace {

PropertyValue WordValue(uint32_t which, uint32_t word) {
  PropertyValue value = {.which = which};
  XdrEncoder xdr(value.data);
  xdr(word);
  return value;
}

uint32_t WordOf(const PropertyValue& value) {
  uint32_t word = 0;
  XdrDecoder xdr(value.data);
  xdr(word);
  return word;
}

}  // namespace

PropertyValue ReceiveSizeValue(uint32_t bytes) { return WordValue(kReceiveSizeProperty, bytes); }

PropertyValue BackwardValue(BackwardSupport support) {
  return WordValue(kBackwardProperty, static_cast<uint32_t>(support));
}

bool IsKnownProperty(uint32_t which) {
  return which == kReceiveSizeProperty || which == kBackwardProperty;
}

absl::Status CheckProperties(const PropertySet& set) {
  for (const PropertyValue& value : set) {
    if (!IsKnownProperty(value.which) || value.data.empty()) continue;
    const bool wrong_enum = value.which == kBackwardProperty &&
                            WordOf(value) > static_cast<uint32_t>(BackwardSupport::kGeneral);
    if (value.data.size() != 4 || wrong_enum) {
      return absl::DataLossError(absl::StrCat("property ", value.which, ": its ", value.data.size(),
                                              " bytes are not a value of its type"));
    }
  }
  return absl::OkStatus();
}

void ApplyProperty(const PropertyValue& value, Properties& properties) {
  if (value.which == kReceiveSizeProperty) {
    properties.receive_size = std::max(kDefaultInline, WordOf(value));
  } else if (value.which == kBackwardProperty) {
    properties.backward =
        value.data.empty() ? Properties().backward : static_cast<BackwardSupport>(WordOf(value));
  }
}

bool InSubset(const PropertySubset& subset, size_t index) {
  return index / 32 < subset.size() && (subset[index / 32] >> index % 32 & 1) != 0;
}

void AddToSubset(PropertySubset& subset, size_t index) {
  if (subset.size() <= index / 32) subset.resize(index / 32 + 1);
  subset[index / 32] |= uint32_t{1} << index % 32;
}

std::vector<Change> JudgeResponse(const PropertySet& wanted, const PropertiesBody& response,
                                  PropertySet* other) {
  std::vector<Change> changes;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const auto is_this = [&](const PropertyValue& value) { return value.which == wanted[i].which; };
    const auto found = std::ranges::find_if(response.values, is_this);
    const bool in_other = found != response.values.end();
    const bool done = InSubset(response.done, i), rejected = InSubset(response.rejected, i);
    if (done + rejected + in_other != 1 || rejected) {
      changes.push_back(Change::kRejected);
    } else if (done) {
      changes.push_back(Change::kDone);
    } else {
      changes.push_back(Change::kOther);
      other->push_back(*found);
    }
  }
  return changes;
}

}  // namespace dafs::rpcrdma
