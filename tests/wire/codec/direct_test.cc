// The structured content of direct buffers against the golden vectors. The builder and the reader
// of READDIR's entries against the vectors and each other.
#include "wire/codec/direct.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "tests/wire/vectors.h"
#include "wire/codec/checksum.h"
#include "wire/codec/codec.h"

namespace dafs::wire::testing {
namespace {

std::vector<Direntry> EntriesOf(const Json& list) {
  std::vector<Direntry> entries;
  JsonReader reader(list, DafsStatus::kOk);
  for (const Json& element : list) reader.Read(element, entries.emplace_back());
  return entries;
}

Json ToJson(const std::vector<Direntry>& entries) {
  Json list = Json::array();
  for (const Direntry& e : entries) list.push_back(JsonWriter().Value(e));
  return list;
}

// Builds the array in a buffer of `bound` bytes. Returns an empty vector if an entry did not fit.
std::vector<std::byte> Build(const std::vector<Direntry>& entries, ByteOrder order, size_t bound) {
  std::vector<std::byte> out(bound, std::byte{0xaa});
  DirentArrayBuilder builder(order, out);
  for (const Direntry& e : entries) {
    if (!builder.Add(e.cookie, e.attrs, e.name)) return {};
  }
  out.resize(builder.Finish());
  return out;
}

absl::Status ReadAll(DirentReader& reader, std::vector<Direntry>& entries) {
  DirentView view;
  while (reader.Next(view)) {
    entries.push_back({view.cookie, *view.attrs, std::string(view.name)});
  }
  return reader.status();
}

// The direct checksum covers the transferred bytes.
TEST(DirectTest, MatchesEveryVectorOfDirectContent) {
  size_t done = 0;
  for (const Json& vector : LoadVectors("direct.json")) {
    SCOPED_TRACE(NameOf(vector));
    const std::vector<std::byte> content = MessageOf(vector);
    const ByteOrder order = OrderOf(vector);
    const Json& value = vector.at("value");
    const std::string item = vector.at("item").get<std::string>();
    ASSERT_EQ(content.size(), vector.at("length").get<size_t>());
    std::vector<std::byte> out(content.size(), std::byte{0xaa});
    size_t extent = 0;
    if (item == "file attributes") {
      FileAttributes decoded;
      const auto end = DecodeDirect(content, order, decoded);
      ASSERT_TRUE(end.ok()) << end.status();
      extent = *end;
      EXPECT_EQ(JsonWriter().AttributesValue(decoded), value);
      FileAttributes from_json;
      JsonReader(value, DafsStatus::kOk).AttributesFrom(value, from_json);
      EXPECT_EQ(DirectSize(from_json), content.size());
      const auto written = EncodeDirect(from_json, order, out);
      ASSERT_TRUE(written.ok()) << written.status();
      std::vector<std::byte> small(content.size() - 1);
      EXPECT_EQ(DafsFromStatus(EncodeDirect(from_json, order, small).status()),
                DafsStatus::kTooSmall);
      for (size_t cut = 0; cut < content.size(); ++cut) {
        const std::vector<std::byte> part(content.begin(),
                                          content.begin() + static_cast<ptrdiff_t>(cut));
        EXPECT_FALSE(DecodeDirect(part, order, decoded).ok()) << cut;
      }
    } else if (item == "array of direntry") {
      DirentReader reader;
      ASSERT_TRUE(reader.OpenDirect(content, order).ok());
      std::vector<Direntry> entries;
      ASSERT_TRUE(ReadAll(reader, entries).ok());
      extent = reader.extent();
      EXPECT_EQ(ToJson(entries), value);
      out = Build(EntriesOf(value), order, content.size());
      EXPECT_TRUE(entries.empty() || Build(EntriesOf(value), order, content.size() - 1).empty());
      for (size_t cut = 0; cut < content.size(); ++cut) {
        const std::vector<std::byte> part(content.begin(),
                                          content.begin() + static_cast<ptrdiff_t>(cut));
        entries.clear();
        EXPECT_FALSE(reader.OpenDirect(part, order).ok() && ReadAll(reader, entries).ok()) << cut;
      }
    } else {
      ASSERT_EQ(item, "utf8string");
      const std::string text = JsonReader::Text(value);
      const auto decoded = DecodeDirectString(content, order);
      ASSERT_TRUE(decoded.ok()) << decoded.status();
      EXPECT_EQ(*decoded, text);
      extent = 4 + decoded->size();
      EXPECT_TRUE(EncodeDirectString(text, order, out).ok());
    }
    EXPECT_EQ(Hex(out), Hex(content));
    EXPECT_EQ(extent, content.size());
    const Json& sum = vector.at("direct_checksum");
    EXPECT_EQ(ComputeChecksum(content, order),
              (Checksum{sum.at("S2").get<uint16_t>(), sum.at("S1").get<uint16_t>()}));
    ++done;
  }
  EXPECT_EQ(done, 20u);
}

// Shows DAFS-6.5.29-07: READDIR_INLINE built entry by entry equals the vectors.
TEST(DirectTest, ReaddirInlineBuiltInPlaceEqualsTheVectors) {
  size_t done = 0;
  for (const Json& vector : LoadVectors("readdir.json")) {
    if (IsRequest(vector) || ProcOf(vector) != Proc::kReaddirInline || vector.at("body").is_null())
      continue;
    SCOPED_TRACE(NameOf(vector));
    const std::vector<std::byte> message = MessageOf(vector);
    const ByteOrder order = OrderOf(vector);
    ReaddirInlineRes expected;
    JsonReader reader(vector.at("body"), DafsStatus::kOk);
    ReaddirInlineRes::Fields(expected, reader);

    std::vector<std::byte> out(message.size() + 64, std::byte{0xaa});
    DirentArrayBuilder builder(order, std::span(out).subspan(kReaddirInlineEntries));
    for (const Direntry& e : expected.entries) {
      ASSERT_TRUE(builder.Add(e.cookie, e.attrs, e.name));
    }
    const size_t extent = builder.Finish();
    const size_t size = FinishReaddirInline(ResponseHeaderOf(vector), expected.cookieverf,
                                            expected.eof, expected.entries.size(), extent, order,
                                            out, vector.at("use_checksums").get<bool>());
    out.resize(size);
    EXPECT_EQ(Hex(out), Hex(message));

    DirentReader dirents;
    ReaddirInlineRes found;
    ASSERT_TRUE(dirents.OpenInline(message, order, found.cookieverf, found.eof).ok());
    EXPECT_EQ(dirents.count(), expected.entries.size());
    ASSERT_TRUE(ReadAll(dirents, found.entries).ok());
    JsonWriter writer;
    ReaddirInlineRes::Fields(found, writer);
    EXPECT_EQ(writer.Take(), vector.at("body"));
    ++done;
  }
  EXPECT_GE(done, 6u);
}

// Shows DAFS-6.5.29-05: the result never exceeds maxcount, including all encoding overhead.
TEST(DirectTest, BuilderFillsTheBoundAndNeverExceedsIt) {
  std::mt19937 random(20010911);
  for (int round = 0; round < 200; ++round) {
    std::vector<Direntry> entries;
    for (int i = 0; i < 40; ++i) {
      Direntry& e = entries.emplace_back();
      e.cookie = 3 + random();
      e.name.assign(1 + random() % 60, 'n');
      if (random() % 3 == 0) continue;
      e.attrs.set(kFattrObjectSize | kFattrOwner);
      e.attrs.included |= kFattrAcl;
      e.attrs.object_size = random();
      e.attrs.owner.assign(random() % 20, 'o');
    }
    const ByteOrder order = round % 2 == 0 ? ByteOrder::kLittle : ByteOrder::kBig;
    const size_t bound = random() % 3000;
    // Guard bytes after the bound.
    std::vector<std::byte> out(bound + 16, std::byte{0xaa});
    DirentArrayBuilder builder(order, std::span(out).first(bound));
    size_t fitted = 0;
    while (fitted < entries.size() &&
           builder.Add(entries[fitted].cookie, entries[fitted].attrs, entries[fitted].name)) {
      ++fitted;
    }
    const size_t extent = builder.Finish();
    ASSERT_LE(extent, bound);
    for (size_t i = bound; i < out.size(); ++i) ASSERT_EQ(out[i], std::byte{0xaa});
    if (bound < 8) {
      ASSERT_EQ(fitted, 0u);
      continue;
    }
    DirentReader reader;
    ASSERT_TRUE(reader.OpenDirect(std::span(out).first(extent), order).ok());
    std::vector<Direntry> read;
    ASSERT_TRUE(ReadAll(reader, read).ok());
    ASSERT_EQ(read.size(), fitted);
    ASSERT_EQ(reader.extent(), extent);
    entries.resize(fitted);
    ASSERT_EQ(ToJson(read), ToJson(entries));
  }
}

TEST(DirectTest, ContentMayBeFollowedByOtherBytes) {
  FileAttributes attributes;
  attributes.set(kFattrMode);
  attributes.mode = 0644;
  std::vector<std::byte> out(64, std::byte{0xaa});
  ASSERT_EQ(*EncodeDirect(attributes, ByteOrder::kBig, out), 24u);
  FileAttributes decoded;
  const auto extent = DecodeDirect(out, ByteOrder::kBig, decoded);
  ASSERT_TRUE(extent.ok());
  EXPECT_EQ(*extent, 24u);
  EXPECT_EQ(decoded, attributes);
}

}  // namespace
}  // namespace dafs::wire::testing
