#include "wire/rpcrdma/property_exchange.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace dafs::rpcrdma {

void PropertyExchange::Send(Proc proc, uint32_t xid, PropertiesBody body) {
  Header header;
  header.xid = xid;
  header.credits = link_.options.credits;
  header.proc = proc;
  header.properties = std::move(body);
  link_.SendOrFail(header, {});
}

void PropertyExchange::Announce() {
  if (said_ || !link_.options.properties || link_.version != kVersion2) return;
  said_ = true;
  PropertiesBody body;
  body.values = {ReceiveSizeValue(link_.own.receive_size), BackwardValue(link_.own.backward)};
  AddToSubset(body.no_change, 1);
  sent_xids_.push_back(next_xid_);
  Send(Proc::kConnectionProperties, next_xid_++, std::move(body));
}

// 6.3.1: a property that was not announced has its default and keeps it.
bool PropertyExchange::MayChange(uint32_t which) const {
  if (!announced_.has_value()) return false;
  const PropertySet& values = announced_->values;
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i].which == which) return !InSubset(announced_->no_change, i);
  }
  return false;
}

void PropertyExchange::Ask(PropertySet wanted, Done done) {
  if (open_.has_value()) {
    return done(absl::FailedPreconditionError("another property request is open"));
  }
  if (!link_.options.properties || peer_lacks_them_ || !announced_.has_value()) {
    return done(absl::FailedPreconditionError("the peer has announced no properties"));
  }
  for (const PropertyValue& value : wanted) {
    if (IsKnownProperty(value.which) && !MayChange(value.which)) {
      return done(absl::FailedPreconditionError(
          absl::StrCat("the peer does not change property ", value.which)));
    }
  }
  open_ = {next_xid_++, wanted, std::move(done), link_.peer};
  for (const PropertyValue& value : wanted) {
    Properties smaller = link_.peer;
    ApplyProperty(value, smaller);
    link_.peer.receive_size = std::min(link_.peer.receive_size, smaller.receive_size);
  }
  const uint32_t xid = open_->xid;
  Send(Proc::kRequestProperties, xid, {.values = std::move(wanted)});
}

absl::Status PropertyExchange::RaiseReceiveSize(uint32_t bytes) {
  if (bytes < link_.own.receive_size || bytes > link_.options.receive_capacity) {
    return absl::InvalidArgumentError(absl::StrCat("receive size ", bytes, ": it is between ",
                                                   link_.own.receive_size, " and ",
                                                   link_.options.receive_capacity));
  }
  // All posted receives have the capacity, so none of a smaller size is left (6.2.1).
  link_.own.receive_size = bytes;
  sent_xids_.push_back(next_xid_);
  Send(Proc::kUpdateProperties, next_xid_++, {.values = {ReceiveSizeValue(bytes)}});
  return absl::OkStatus();
}

std::optional<ErrorCode> PropertyExchange::OnOperation(const Header& header) {
  if (!link_.options.properties) return ErrorCode::kInvalidOption;
  const PropertySet& values = header.properties.values;
  if (!CheckProperties(values).ok()) {
    // Errors flow to requesters only (7.2.2): our request has failed.
    if (header.proc != Proc::kRespondProperties) return ErrorCode::kBadXdr;
    if (open_.has_value() && open_->xid == header.xid) {
      FailAll(absl::DataLossError("the response to a property request has wrong values"));
    }
    return std::nullopt;
  }
  switch (header.proc) {
    case Proc::kConnectionProperties:
      link_.peer = Properties();
      for (const PropertyValue& value : values) ApplyProperty(value, link_.peer);
      announced_ = header.properties;
      break;
    case Proc::kRequestProperties:
      OnRequest(header);
      break;
    case Proc::kRespondProperties:
      OnResponse(header);
      break;
    default:
      OnUpdate(values);
  }
  return std::nullopt;
}

void PropertyExchange::OnRequest(const Header& header) {
  PropertiesBody answer;
  const PropertySet& wanted = header.properties.values;
  for (size_t i = 0; i < wanted.size(); ++i) {
    Properties asked = link_.own;
    ApplyProperty(wanted[i], asked);
    const bool is_size = wanted[i].which == kReceiveSizeProperty;
    if (is_size && asked.receive_size > link_.options.receive_capacity) {
      link_.own.receive_size = link_.options.receive_capacity;
      answer.values.push_back(ReceiveSizeValue(link_.own.receive_size));
    } else if (!is_size ||
               (!wanted[i].data.empty() && ReceiveSizeValue(asked.receive_size) != wanted[i])) {
      AddToSubset(answer.rejected, i);  // or a size below that which every receiver supports
    } else {
      link_.own.receive_size = asked.receive_size;
      AddToSubset(answer.done, i);
    }
  }
  Send(Proc::kRespondProperties, header.xid, std::move(answer));
}

void PropertyExchange::OnResponse(const Header& header) {
  if (!open_.has_value() || open_->xid != header.xid) return;
  Open asked = *std::exchange(open_, std::nullopt);
  PropertySet other;
  const std::vector<Change> changes = JudgeResponse(asked.wanted, header.properties, &other);
  link_.peer = asked.before;
  for (size_t i = 0; i < changes.size(); ++i) {
    if (changes[i] == Change::kDone) ApplyProperty(asked.wanted[i], link_.peer);
  }
  for (const PropertyValue& value : other) ApplyProperty(value, link_.peer);
  asked.done(changes);
}

void PropertyExchange::OnUpdate(const PropertySet& now) {
  for (const PropertyValue& value : now) {
    if (!MayChange(value.which)) continue;
    Properties& current = open_.has_value() ? open_->before : link_.peer;
    ApplyProperty(value, current);
    // A larger value that is effective ends the limit of an open request (6.2.1).
    if (open_.has_value() && current.receive_size > link_.peer.receive_size) link_.peer = current;
  }
}

bool PropertyExchange::OnError(const Header& header) {
  const auto sent = std::ranges::find(sent_xids_, header.xid);
  const bool is_request = open_.has_value() && open_->xid == header.xid;
  const ErrorCode code = header.error.code;
  if (!is_request && sent == sent_xids_.end()) return false;
  if (code != ErrorCode::kInvalidOption && code != ErrorCode::kInvalidProcedure) return false;
  peer_lacks_them_ = true;
  if (sent != sent_xids_.end()) sent_xids_.erase(sent);
  if (is_request) {
    link_.peer = open_->before;
    FailAll(absl::FailedPreconditionError("the peer takes no property requests"));
  }
  return true;
}

void PropertyExchange::FailAll(const absl::Status& why) {
  if (!open_.has_value()) return;
  Open asked = *std::exchange(open_, std::nullopt);
  link_.peer = asked.before;
  asked.done(why);
}

}  // namespace dafs::rpcrdma
