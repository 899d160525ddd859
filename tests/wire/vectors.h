// The golden vectors under tests/wire/vectors: bytes made by another implementation of WIRE.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "tests/wire/codec/json_fields.h"
#include "wire/codec/codec.h"

namespace dafs::wire::testing {

inline Json LoadVectors(const std::string& file) {
  std::ifstream in(std::string(DAFS_SOURCE_DIR) + "/tests/wire/vectors/" + file);
  EXPECT_TRUE(in.good()) << file;
  return Json::parse(in).at("cases");
}

inline ByteOrder OrderOf(const Json& vector) {
  return vector.at("byte_order") == "big" ? ByteOrder::kBig : ByteOrder::kLittle;
}
inline std::string NameOf(const Json& vector) { return vector.at("name").get<std::string>(); }
inline bool IsRequest(const Json& vector) { return vector.at("kind") == "request"; }
inline std::vector<std::byte> MessageOf(const Json& vector) {
  return BytesFromHex(vector.at("hex").get<std::string>());
}
inline Proc ProcOf(const Json& vector) {
  return static_cast<Proc>(vector.at("procedure").get<uint32_t>());
}
inline OpenClaimType ClaimOf(const Json& vector) {
  return static_cast<OpenClaimType>(vector.value("claim_type", 0u));
}

inline RequestHeader RequestHeaderOf(const Json& vector) {
  const Json& json = vector.at("header");
  JsonReader reader(json, DafsStatus::kOk);
  RequestHeader h;
  reader.Field("protocol_version", h.protocol_version);
  reader.Field("desired_nreq", h.desired_nreq);
  reader.Field("chain_flags", h.chain_flags);
  reader.Field("stream_id", h.stream_id);
  reader.Field("seq_number", h.seq_number);
  reader.Field("analyzer", h.analyzer);
  reader.Field("cred_handle", h.cred_handle);
  reader.Field("procedure", h.procedure);
  return h;
}

inline ResponseHeader ResponseHeaderOf(const Json& vector) {
  const Json& json = vector.at("header");
  JsonReader reader(json, DafsStatus::kOk);
  ResponseHeader h;
  reader.Field("protocol_version", h.protocol_version);
  reader.Field("target_nreq", h.target_nreq);
  reader.Field("spec_cond", h.spec_cond);
  reader.Field("stream_id", h.stream_id);
  reader.Field("seq_number", h.seq_number);
  reader.Field("analyzer", h.analyzer);
  reader.Field("status", h.status);
  return h;
}

// Clears lengths and checksums, which follow from the other fields, so that headers can be
// compared.
template <class Header>
Header WithoutDerived(Header h) {
  h.message_checksum = Checksum();
  if constexpr (std::is_same_v<Header, RequestHeader>) {
    h.request_len = 0;
  } else {
    h.response_len = 0;
  }
  return h;
}

}  // namespace dafs::wire::testing
