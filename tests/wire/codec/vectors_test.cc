// Every golden vector of requests and responses: encoding gives its bytes, decoding gives its
// fields, and every truncation of it is refused.
#include "tests/wire/vectors.h"

#include <gtest/gtest.h>

#include <ostream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "wire/codec/checksum.h"
#include "wire/codec/codec.h"
#include "wire/codec/direct.h"

namespace dafs::wire::testing {
namespace {

struct File {
  const char* name;
  size_t cases;  // in the file, so that a skipped case is noticed

  friend void PrintTo(const File& file, std::ostream* out) { *out << file.name; }
};

class VectorsTest : public ::testing::TestWithParam<File> {};

// Returns the message cut to `size` bytes, with the length word to match, in memory of exactly that
// size.
std::vector<std::byte> Cut(const std::vector<std::byte>& message, size_t size, size_t length_at,
                           ByteOrder order) {
  std::vector<std::byte> cut(message.begin(), message.begin() + static_cast<ptrdiff_t>(size));
  if (size >= length_at + 4) {
    internal::StoreAs(cut.data() + length_at, static_cast<uint32_t>(size),
                      internal::NeedsSwap(order));
  }
  return cut;
}

template <class Args>
std::span<const std::byte> InlineDataOf(const std::vector<std::byte>& message, const Args& args,
                                        uint32_t padded_at, DafsStatus& status) {
  std::span<const std::byte> data;
  if constexpr (Args::kProc == Proc::kWriteInline || Args::kProc == Proc::kAppendInline) {
    status = FindInlineData(message, args, padded_at, data);
  }
  return data;
}

// Returns the position of inline data for the options: 0 unless it is padded.
template <class Args>
size_t PositionOf(const Args& args, uint32_t padded_at) {
  if constexpr (requires { args.write_padded; }) {
    return args.write_padded ? padded_at : 0;
  } else {
    return 0;
  }
}

template <class Res>
absl::StatusOr<std::span<const std::byte>> ReadDataOf(const std::vector<std::byte>& message,
                                                      const Res& res) {
  if constexpr (Res::kProc == Proc::kReadInline) return FindInlineData(message, res);
  return std::span<const std::byte>();
}

template <Proc kProc>
void CheckRequestVector(const Json& vector) {
  using Args = typename ProcTraits<kProc>::Args;
  const std::vector<std::byte> message = MessageOf(vector);
  const ByteOrder order = OrderOf(vector);
  const uint32_t padded_at = vector.at("inline_write_header_size").get<uint32_t>();
  const Json& body = vector.at("body");
  const auto data = BytesFromHex(vector.at("data").get<std::string>());
  const bool checksums = vector.at("use_checksums").get<bool>();

  const auto decoded = DecodeRequestHeader(message, std::nullopt);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->order, order);
  EXPECT_EQ(WithoutDerived(decoded->header), RequestHeaderOf(vector));
  EXPECT_EQ(decoded->header.request_len, message.size());
  EXPECT_EQ(decoded->header.message_checksum,
            checksums ? MessageChecksum(message, order) : Checksum());

  Args args;
  ASSERT_EQ(DecodeArgs(message, order, args), DafsStatus::kOk);
  JsonWriter writer;
  Args::Fields(args, writer);
  EXPECT_EQ(writer.Take(), body.is_null() ? Json::object() : body);
  DafsStatus status = DafsStatus::kOk;
  EXPECT_EQ(Hex(InlineDataOf(message, args, padded_at, status)), Hex(data));
  ASSERT_EQ(status, DafsStatus::kOk);
  EXPECT_NE(ToString(args), "");

  Args from_json;
  if (!body.is_null()) {
    JsonReader reader(body, DafsStatus::kOk);
    Args::Fields(from_json, reader);
  }
  EncodeOptions options;
  options.checksum = checksums;
  options.inline_data = {data, PositionOf(from_json, padded_at)};
  std::vector<std::byte> out(message.size(), std::byte{0xaa});
  const auto size = EncodeRequest(RequestHeaderOf(vector), from_json, order, out, options);
  ASSERT_TRUE(size.ok()) << size.status();
  EXPECT_EQ(Hex(out), Hex(message));
  EXPECT_EQ(*size, message.size());
  if (data.empty()) {
    EXPECT_EQ(EncodedSize(from_json), message.size());
  }

  for (size_t room = 0; room < message.size(); ++room) {
    std::vector<std::byte> small(room);
    const auto none = EncodeRequest(RequestHeaderOf(vector), from_json, order, small, options);
    ASSERT_EQ(DafsFromStatus(none.status()), DafsStatus::kTooSmall) << room;
  }
  for (size_t length = 0; length < message.size(); ++length) {
    const std::vector<std::byte> cut = Cut(message, length, 36, order);
    const bool framed = length >= kHeaderSize && length % 8 == 0;
    ASSERT_EQ(DecodeRequestHeader(cut, order).ok(), framed) << length;
    Args part;
    status = DecodeArgs(cut, order, part);
    if (status == DafsStatus::kOk) InlineDataOf(cut, part, padded_at, status);
    // Only the last bytes, the padding, may be missing.
    if (length + 8 <= message.size()) {
      ASSERT_NE(status, DafsStatus::kOk) << length;
    }
  }
}

template <Proc kProc>
void CheckResponseVector(const Json& vector) {
  using Res = typename ProcTraits<kProc>::Res;
  const std::vector<std::byte> message = MessageOf(vector);
  const ByteOrder order = OrderOf(vector);
  const Json& body = vector.at("body");
  const auto data = BytesFromHex(vector.at("data").get<std::string>());
  const bool checksums = vector.at("use_checksums").get<bool>();
  const ResponseHeader header = ResponseHeaderOf(vector);
  const OpenClaimType claim = ClaimOf(vector);

  const auto decoded = DecodeResponseHeader(message, order);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(WithoutDerived(decoded->header), header);
  EXPECT_EQ(decoded->header.response_len, message.size());
  EXPECT_EQ(decoded->header.message_checksum,
            checksums ? MessageChecksum(message, order) : Checksum());

  Res res;
  const absl::Status result = DecodeRes(message, order, header.status, res, claim);
  ASSERT_TRUE(result.ok()) << result;
  if (body.is_null()) {
    EXPECT_EQ(res, Res());
  } else {
    JsonWriter writer(header.status);
    Res::Fields(res, writer);
    EXPECT_EQ(writer.Take(), body);
  }
  if (kProc == Proc::kReadInline && !body.is_null()) {
    const auto found = ReadDataOf(message, res);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(Hex(*found), Hex(data));
  }
  EXPECT_NE(ToString(res), "");

  Res from_json;
  if (!body.is_null()) {
    JsonReader reader(body, header.status);
    Res::Fields(from_json, reader);
  }
  EncodeOptions options;
  options.checksum = checksums;
  options.inline_data = {data, 0};
  options.claim_type = claim;
  std::vector<std::byte> out(message.size(), std::byte{0xaa});
  // A bare header with a status that usually has a result section: NOTSUPP from step 6.
  const bool bare = body.is_null() && InfoOf(kProc).res_size > 0;
  const auto size =
      bare ? absl::StatusOr<size_t>(EncodeResponseHeaderOnly(header, order, out, checksums))
           : EncodeResponse(header, from_json, order, out, options);
  ASSERT_TRUE(size.ok()) << size.status();
  EXPECT_EQ(Hex(out), Hex(message));

  for (size_t length = 0; length < message.size(); ++length) {
    const std::vector<std::byte> cut = Cut(message, length, 32, order);
    const bool framed = length >= kHeaderSize && length % 8 == 0;
    ASSERT_EQ(DecodeResponseHeader(cut, order).ok(), framed) << length;
    if (length < kHeaderSize) continue;
    Res part;
    bool ok = DecodeRes(cut, order, header.status, part, claim).ok();
    ok = ok && ReadDataOf(cut, part).ok();
    // 9.3: with an exceptional status a bare header stands for a section of zeros.
    const bool tolerated = length == kHeaderSize && header.status != DafsStatus::kOk;
    if (length + 8 <= message.size() && !tolerated) {
      ASSERT_FALSE(ok) << length;
    }
  }
}

// Shows DAFS-6.1.1.1-01, DAFS-6.1.1.1-02, DAFS-6.1.1.1-03, DAFS-6.1.1.1-05, DAFS-6.1.1.1-06,
// DAFS-6.1.1.1-07, DAFS-6.1.1.1-08, DAFS-6.1.1.1-09: layout in both byte orders.
// Shows DAFS-6.1.1.2-01, DAFS-6.1.1.2-02, DAFS-6.1.1.2-04, DAFS-6.1.1.3.1-01, DAFS-6.1.1.3.1-02,
// DAFS-6.1.1.3.1-03, DAFS-6.1.1.3.1-04: arrays and pathnames.
// Shows DAFS-6.1.1.3.2-01, DAFS-6.1.1.3.2-02, DAFS-6.1.1.3.2-03, DAFS-6.1.1.3.2-04: scopes.
// Shows DAFS-6.1.1.4-01, DAFS-6.1.1.4-02, DAFS-6.1.1.4-03, DAFS-6.1.1.4-04: primitive types.
// Shows DAFS-6.1.2-09, DAFS-6.1.3-01, DAFS-6.1.3-07, DAFS-6.1.4-01, DAFS-6.1.4-02, DAFS-6.1.4-03,
// DAFS-6.1.5-06, DAFS-6.1.7-01, DAFS-6.1.7-02, DAFS-6.1.7-03, DAFS-6.1.7-04, DAFS-6.1.9-01,
// DAFS-6.1.9-02, DAFS-6.1.9-03, DAFS-6.1.10-01 (assigned numbers).
TEST_P(VectorsTest, EncoderAndDecoderMatchEveryByte) {
  const Json cases = LoadVectors(GetParam().name);
  ASSERT_EQ(cases.size(), GetParam().cases);
  size_t done = 0;
  for (const Json& vector : cases) {
    SCOPED_TRACE(NameOf(vector) + " " + vector.at("kind").get<std::string>());
    const bool known = VisitProc(ProcOf(vector), [&]<Proc kProc>() {
      EXPECT_EQ(Name(kProc), vector.at("procedure_name").get<std::string>());
      if (IsRequest(vector)) {
        CheckRequestVector<kProc>(vector);
      } else {
        CheckResponseVector<kProc>(vector);
      }
    });
    EXPECT_TRUE(known);
    ++done;
    if (HasFatalFailure()) return;
  }
  EXPECT_EQ(done, GetParam().cases);
}

INSTANTIATE_TEST_SUITE_P(Golden, VectorsTest,
                         ::testing::Values(File{"session.json", 168},
                                           File{"response_cache.json", 30},
                                           File{"fencing.json", 26}, File{"namespace.json", 108},
                                           File{"attributes.json", 238},
                                           File{"open_close.json", 68}, File{"locks.json", 46},
                                           File{"read_write.json", 100}, File{"readdir.json", 20},
                                           File{"batch.json", 20}, File{"back_control.json", 28}),
                         [](const auto& info) {
                           const std::string name = info.param.name;
                           return name.substr(0, name.find('.'));
                         });

// The vectors contain every procedure of the protocol, with its request and its response.
TEST(VectorsCoverage, EveryProcedureHasRequestAndResponse) {
  std::set<std::pair<Proc, bool>> seen;
  for (const char* file :
       {"session", "response_cache", "fencing", "namespace", "attributes", "open_close", "locks",
        "read_write", "readdir", "batch", "back_control"}) {
    for (const Json& vector : LoadVectors(std::string(file) + ".json")) {
      seen.emplace(ProcOf(vector), IsRequest(vector));
    }
  }
  for (const ProcInfo& info : kProcedures) {
    if (static_cast<uint32_t>(info.number) >= 1000) continue;  // private: not in the profile
    EXPECT_TRUE(seen.contains({info.number, true})) << info.name;
    EXPECT_TRUE(seen.contains({info.number, false})) << info.name;
  }
}

}  // namespace
}  // namespace dafs::wire::testing
