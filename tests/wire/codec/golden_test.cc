// Bytes computed by hand: the messages printed in WIRE 5.4, 10.3 and 14, and the private
// procedures, which no vector covers. None of them was printed by our encoder.
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <vector>

#include "tests/wire/codec/json_fields.h"
#include "wire/codec/checksum.h"
#include "wire/codec/codec.h"
#include "wire/codec/direct.h"

namespace dafs::wire::testing {
namespace {

Analyzer OneToEight() { return {{1, 2, 3, 4, 5, 6, 7, 8}}; }

template <class Args>
std::string Encoded(const RequestHeader& header, const Args& args, ByteOrder order,
                    bool checksum = false) {
  std::vector<std::byte> out(4096, std::byte{0xaa});
  const auto size = EncodeRequest(header, args, order, out, {.checksum = checksum});
  EXPECT_TRUE(size.ok()) << size.status();
  return Hex(std::span(out).first(size.value_or(0)));
}

// Shows DAFS-6.1.2-01, DAFS-6.1.2-09: the layout of the request header.
// WIRE 14.1.
TEST(GoldenTest, NullRequestLittleEndian) {
  RequestHeader h;
  h.desired_nreq = 8;
  h.stream_id = 3;
  h.seq_number = 7;
  h.analyzer = OneToEight();
  EXPECT_EQ(Encoded(h, NullArgs(), ByteOrder::kLittle),
            "53464144010000000800000003000700"
            "01020304050607080000000000000000"
            "8400000028000000");
  EXPECT_EQ(Encoded(h, NullArgs(), ByteOrder::kLittle, /*checksum=*/true).substr(48, 8),
            "836f64a0");
}

// Shows DAFS-6.1.3-01, DAFS-6.1.3-02, DAFS-6.1.3-06. WIRE 14.1.
TEST(GoldenTest, NullResponseLittleEndian) {
  RequestHeader request;
  request.stream_id = 3;
  request.seq_number = 7;
  request.analyzer = OneToEight();
  const ResponseHeader h = ResponseTo(request, DafsStatus::kOk, 8);
  std::vector<std::byte> out(40);
  EXPECT_EQ(EncodeResponseHeaderOnly(h, ByteOrder::kLittle, out, false), 40u);
  EXPECT_EQ(Hex(out),
            "52464144010000000800000003000700"
            "01020304050607080000000000000000"
            "2800000000000000");
  EncodeResponseHeaderOnly(h, ByteOrder::kLittle, out, true);
  EXPECT_EQ(Hex(out).substr(48, 8), "af6ddf9f");
}

// WIRE 14.2.
TEST(GoldenTest, ClientConnectLittleEndian) {
  RequestHeader h;
  h.desired_nreq = 16;
  h.seq_number = 1;
  h.analyzer = OneToEight();
  ClientConnectArgs args;
  args.use_response_cache = true;
  args.max_credentials = 8;
  args.max_request_size = 8192;
  args.max_response_size = 8192;
  args.max_requests = 16;
  args.client_id_string = "c1";
  args.client_verifier = {{0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88}};
  EXPECT_EQ(Encoded(h, args, ByteOrder::kLittle),
            "53464144010000001000000000000100"
            "01020304050607080000000000000000"
            "65000000680000000000000001000000"
            "08000000002000000020000010000000"
            "00000000000000000000000000000000"
            "38000000000000001122334455667788"
            "0200000063310000");
}

FileHandle CountingHandle() {
  FileHandle f;
  for (uint8_t i = 0; i < 16; ++i) f.fshandle.bytes[i] = i;
  for (uint8_t i = 0; i < 48; ++i) f.fileid.bytes[i] = static_cast<uint8_t>(16 + i);
  return f;
}

// WIRE 14.3.
TEST(GoldenTest, LookupBigEndian) {
  RequestHeader h;
  h.desired_nreq = 8;
  h.stream_id = 5;
  h.seq_number = 0x1234;
  h.analyzer = OneToEight();
  h.cred_handle = {{0xa1, 0xa2, 0xa3, 0xa4}};
  LookupArgs args;
  args.directory = CountingHandle();
  args.path = {"a", "bc"};
  EXPECT_EQ(Encoded(h, args, ByteOrder::kBig),
            "44414653000000010008000000051234"
            "010203040506070800000000a1a2a3a4"
            "00000082000000880001020304050607"
            "08090a0b0c0d0e0f1011121314151617"
            "18191a1b1c1d1e1f2021222324252627"
            "28292a2b2c2d2e2f3031323334353637"
            "38393a3b3c3d3e3f0000004800000000"
            "00000002000000000000000161000000"
            "0000000262630000");
}

// WIRE 5.4.
TEST(GoldenTest, AttributesLittleEndian) {
  FileAttributes a;
  a.set(kFattrHidden | kFattrObjectType | kFattrObjectSize | kFattrOwner);
  a.object_type = ObjectType::kReg;
  a.object_size = 5;
  a.owner = "root";
  std::vector<std::byte> out(48, std::byte{0xaa});
  ASSERT_TRUE(EncodeDirect(a, ByteOrder::kLittle, out).ok());
  EXPECT_EQ(Hex(out),
            "14018000000000001401800000000000"
            "00000000010000000500000000000000"
            "280000000000000004000000726f6f74");
}

// WIRE 10.3.
TEST(GoldenTest, DirectEntriesLittleEndian) {
  FileAttributes a;
  a.set(kFattrObjectType | kFattrOwner);
  a.object_type = ObjectType::kReg;
  a.owner = "u";
  std::vector<std::byte> out(118, std::byte{0xaa});
  DirentArrayBuilder builder(ByteOrder::kLittle, out);
  ASSERT_TRUE(builder.Add(3, a, "a"));
  a.object_type = ObjectType::kDir;
  ASSERT_TRUE(builder.Add(4, a, "bc"));
  EXPECT_FALSE(builder.Add(5, FileAttributes(), "c"));
  EXPECT_EQ(builder.Finish(), 118u);
  EXPECT_EQ(Hex(out),
            "02000000000000000300000000000000"
            "28000000480000000400000000000000"
            "50000000700000001000800000000000"
            "10008000000000000100000018000000"
            "01000000750000000100000061000000"
            "10008000000000001000800000000000"
            "02000000180000000100000075000000"
            "020000006263");
  std::vector<std::byte> sum(4);
  const Checksum c = ComputeChecksum(out, ByteOrder::kLittle);
  internal::StoreAs(sum.data(), c.s2, false);
  internal::StoreAs(sum.data() + 2, c.s1, false);
  EXPECT_EQ(Hex(sum), "042a5f69");
}

// The layout in wire/messages/open_close.h: 80 bytes, followed by the owner.
TEST(GoldenTest, OpenHandleLittleEndian) {
  RequestHeader h;
  h.stream_id = 1;
  h.seq_number = 2;
  OpenHandleArgs args;
  args.filehandle = CountingHandle();
  args.share_access = kShareBoth;
  args.share_deny = kShareWrite;
  args.owner = "o1";
  const std::string hex = Encoded(h, args, ByteOrder::kLittle);
  EXPECT_EQ(hex,
            "53464144010000000000000001000200"
            "00000000000000000000000000000000"
            "e8030000800000000001020304050607"
            "08090a0b0c0d0e0f1011121314151617"
            "18191a1b1c1d1e1f2021222324252627"
            "28292a2b2c2d2e2f3031323334353637"
            "38393a3b3c3d3e3f0300000002000000"
            "5000000000000000020000006f310000");
  OpenHandleArgs decoded;
  EXPECT_EQ(DecodeArgs(BytesFromHex(hex), ByteOrder::kLittle, decoded), DafsStatus::kOk);
  EXPECT_EQ(decoded, args);

  ResponseHeader r;
  OpenHandleRes res;
  res.filehandle = CountingHandle();
  res.state_id = {{9, 8, 7, 6, 5, 4, 3, 2}};
  std::vector<std::byte> out(112);
  EXPECT_EQ(EncodeResponse(r, res, ByteOrder::kBig, out).value_or(0), 112u);
  EXPECT_EQ(Hex(out).substr(80 + 128), "0908070605040302");
}

// The layout in wire/messages/open_close.h: `opendelegation` is at 80, as in OPEN at 112.
TEST(GoldenTest, OpenDelegatedLittleEndian) {
  RequestHeader h;
  OpenDelegatedArgs args;
  args.filehandle = CountingHandle();
  args.share_access = kShareBoth;
  args.owner = "o1";
  args.want = OpenDelegationType::kWrite;
  const std::string hex = Encoded(h, args, ByteOrder::kLittle);
  EXPECT_EQ(hex.substr(64, 16), "f303000080000000");  // 1011, 128 bytes
  EXPECT_EQ(hex.substr(80 + 128), "03000000000000005000000002000000020000006f310000");
  OpenDelegatedArgs decoded;
  EXPECT_EQ(DecodeArgs(BytesFromHex(hex), ByteOrder::kLittle, decoded), DafsStatus::kOk);
  EXPECT_EQ(decoded, args);

  OpenDelegatedRes res;
  res.filehandle = CountingHandle();
  res.state_id = {{9, 8, 7, 6, 5, 4, 3, 2}};
  res.delegation_type = OpenDelegationType::kWrite;
  res.delegation_state_id = {{1, 1, 1, 1, 1, 1, 1, 2}};
  res.recall = true;
  res.filesize = 4096;
  res.permissions_acemask = 7;
  res.delegation_who = "100";
  std::vector<std::byte> out(40 + 120 + 8);
  EXPECT_EQ(EncodeResponse(ResponseHeader(), res, ByteOrder::kLittle, out).value_or(0), 168u);
  EXPECT_EQ(Hex(out).substr(80 + 128),
            "09080706050403020200000000000000"
            "01010101010101020100000001000000"
            "00100000000000000000000000000000"
            "0700000078000000"
            "0300000031303000");
}

// The layouts in wire/messages/posix.h.
TEST(GoldenTest, PosixProceduresLittleEndian) {
  RequestHeader h;
  Rename2Args rename;
  rename.sourcedir = CountingHandle();
  rename.oldname = "o";
  rename.newname = "nn";
  rename.flags = kRenameExchange;
  const std::string handle =
      "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
      "202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f";
  EXPECT_EQ(Encoded(h, rename, ByteOrder::kLittle).substr(80),
            handle + std::string(128, '0') + "90000000980000000200000000000000" +
                "010000006f000000020000006e6e0000");
  OpenExecuteArgs open;
  open.filehandle = CountingHandle();
  open.owner = "o1";
  EXPECT_EQ(Encoded(h, open, ByteOrder::kLittle).substr(80),
            handle + "4800000000000000020000006f310000");
  MakeNodeArgs node;
  node.filehandle = CountingHandle();
  node.component = "n";
  node.obj_type = ObjectType::kFifo;
  node.specdata = {1, 3};
  node.mode = 0640;
  EXPECT_EQ(Encoded(h, node, ByteOrder::kLittle).substr(80),
            handle + "60000000" + "07000000" + "01000000000000000300000000000000" + "a0010000" +
                "00000000" + "010000006e000000");
}

// The layout in wire/messages/promises.h.
TEST(GoldenTest, Promises) {
  RequestHeader h;
  BcChangedArgs args;
  args.changed.push_back({CountingHandle(), kChangedNames | kChangedAttributes, "\xff"});
  const std::string hex = Encoded(h, args, ByteOrder::kLittle);
  EXPECT_EQ(hex.substr(64, 16), "4c04000088000000");  // 1100, 136 bytes
  const std::string handle = hex.substr(112, 128);
  EXPECT_EQ(hex.substr(80),
            "0800000000000000"
            "0100000000000000" +
                handle +
                "03000000"
                "50000000"
                "01000000"
                "ff000000");
  BcChangedArgs decoded;
  EXPECT_EQ(DecodeArgs(BytesFromHex(hex), ByteOrder::kLittle, decoded), DafsStatus::kOk);
  EXPECT_EQ(decoded, args);
  EXPECT_EQ(Encoded(h, PromisesArgs{5}, ByteOrder::kBig).substr(80), "0000000500000000");
  ResponseHeader r;
  std::vector<std::byte> out(48);
  EXPECT_EQ(EncodeResponse(r, PromisesRes{5, 10000}, ByteOrder::kBig, out).value_or(0), 48u);
  EXPECT_EQ(Hex(out).substr(80), "0000000500002710");
}

// The layout in wire/messages/references.h.
TEST(GoldenTest, References) {
  RequestHeader h;
  GetRefsArgs args;
  args.filehandle = CountingHandle();
  args.state_id = {{1, 2, 3, 4, 5, 6, 7, 8}};
  args.offset = 0x123000;
  args.count = 5;
  const std::string hex = Encoded(h, args, ByteOrder::kLittle);
  EXPECT_EQ(hex.substr(64, 16), "1104000080000000");  // 1041, 128 bytes
  EXPECT_EQ(hex.substr(208),
            "0102030405060708"
            "0030120000000000"
            "05000000"
            "00000000");
  GetRefsArgs decoded;
  EXPECT_EQ(DecodeArgs(BytesFromHex(hex), ByteOrder::kLittle, decoded), DafsStatus::kOk);
  EXPECT_EQ(decoded, args);
  ResponseHeader r;
  std::vector<std::byte> out(256);
  GetRefsRes res;
  res.references.push_back({0x11, 0x2230, 0x33});
  ASSERT_EQ(EncodeResponse(r, res, ByteOrder::kLittle, out).value_or(0), 80u);
  EXPECT_EQ(Hex(std::span(out).first(80)).substr(80),
            "08000000"
            "00000000"
            "0100000000000000"
            "1100000000000000"
            "3022000000000000"
            "3300000000000000");
  ExportCacheArgs where;
  where.filehandle = CountingHandle();
  EXPECT_EQ(Encoded(h, where, ByteOrder::kLittle).substr(64, 16), "1204000068000000");
  ASSERT_EQ(
      EncodeResponse(r, ExportCacheRes{7, 4096, 0x1000, 0x2000}, ByteOrder::kBig, out).value_or(0),
      64u);
  EXPECT_EQ(Hex(std::span(out).first(64)).substr(80),
            "0000000700001000"
            "0000000000001000"
            "0000000000002000");
}

// The layout in wire/messages/posix.h, and names by both rules.
TEST(GoldenTest, ExtensionsAndByteNames) {
  RequestHeader h;
  ExtensionsArgs args;
  args.filehandle = CountingHandle();
  args.wanted = 0x0102030405060708;
  const std::string hex = Encoded(h, args, ByteOrder::kLittle);
  EXPECT_EQ(hex.substr(64, 16), "0604000070000000");
  EXPECT_EQ(hex.substr(80 + 128), "0807060504030201");
  ExtensionsArgs decoded;
  EXPECT_EQ(DecodeArgs(BytesFromHex(hex), ByteOrder::kLittle, decoded), DafsStatus::kOk);
  EXPECT_EQ(decoded, args);
  ResponseHeader r;
  std::vector<std::byte> out(48);
  EXPECT_EQ(EncodeResponse(r, ExtensionsRes{1}, ByteOrder::kBig, out).value_or(0), 48u);
  EXPECT_EQ(Hex(out).substr(80), "0000000000000001");

  LookupArgs lookup;
  lookup.path = {"a", "\xff"};
  const std::vector<std::byte> message = BytesFromHex(Encoded(h, lookup, ByteOrder::kBig));
  LookupArgs found;
  EXPECT_EQ(DecodeArgs(message, ByteOrder::kBig, found), DafsStatus::kInval);
  EXPECT_EQ(DecodeArgs(message, ByteOrder::kBig, found, NameRule::kBytes), DafsStatus::kOk);
  EXPECT_EQ(found, lookup);
}

// The layout in wire/messages/server_identity.h: 32 bytes, followed by the cluster id.
TEST(GoldenTest, ServerIdentity) {
  RequestHeader h;
  EXPECT_EQ(Encoded(h, ServerIdentityArgs(), ByteOrder::kLittle).substr(64), "0704000028000000");
  ServerIdentityRes res;
  for (uint8_t i = 0; i < 16; ++i) res.server_id.bytes[i] = i;
  res.instance = 7;
  res.cluster_id = "c1";
  ResponseHeader r;
  std::vector<std::byte> out(80);
  EXPECT_EQ(EncodeResponse(r, res, ByteOrder::kBig, out).value_or(0), 80u);
  EXPECT_EQ(Hex(out).substr(80),
            "000102030405060708090a0b0c0d0e0f"
            "00000007"
            "00000000"
            "00000020"
            "00000000"
            "000000026331"
            "0000");
}

// The layout in wire/messages/locks.h: 80 bytes, followed by the owner.
TEST(GoldenTest, OpenOwnerLittleEndian) {
  RequestHeader h;
  h.stream_id = 1;
  h.seq_number = 2;
  OpenOwnerArgs args;
  args.filehandle = CountingHandle();
  args.state_id = {{9, 8, 7, 6, 5, 4, 3, 2}};
  args.owner = "o1";
  const std::string hex = Encoded(h, args, ByteOrder::kLittle);
  EXPECT_EQ(hex,
            "53464144010000000000000001000200"
            "00000000000000000000000000000000"
            "f2030000800000000001020304050607"
            "08090a0b0c0d0e0f1011121314151617"
            "18191a1b1c1d1e1f2021222324252627"
            "28292a2b2c2d2e2f3031323334353637"
            "38393a3b3c3d3e3f0908070605040302"
            "5000000000000000020000006f310000");
  OpenOwnerArgs decoded;
  EXPECT_EQ(DecodeArgs(BytesFromHex(hex), ByteOrder::kLittle, decoded), DafsStatus::kOk);
  EXPECT_EQ(decoded, args);

  ResponseHeader r;
  OpenOwnerRes res;
  res.state_id = {{9, 8, 7, 6, 5, 4, 3, 2}};
  std::vector<std::byte> out(48);
  EXPECT_EQ(EncodeResponse(r, res, ByteOrder::kBig, out).value_or(0), 48u);
  EXPECT_EQ(Hex(out).substr(80), "0908070605040302");
}

// The fixed section of READ_INLINE as a program would declare it.
struct ReadInlineBytes {
  uint8_t filehandle[64];
  uint8_t state_id[8];
  uint64_t offset;
  uint32_t byte_count;
  uint32_t cache_hint;
};

// Shows FAST03-3.1-01, FAST03-3.1-02: the fixed section is a structure with natural alignment at a
// constant place, and in the byte order of the machine its numbers are those of the structure.
TEST(GoldenTest, FixedSectionIsAStructureOfTheMachine) {
  static_assert(sizeof(ReadInlineBytes) == 88);
  EXPECT_EQ(sizeof(ReadInlineBytes), InfoOf(Proc::kReadInline).args_size);
  ReadInlineArgs args;
  args.filehandle = CountingHandle();
  args.state_id = {{9, 8, 7, 6, 5, 4, 3, 2}};
  args.offset = 0x0102030405060708;
  args.byte_count = 0x01020304;
  args.cache_hint = 6;
  const ByteOrder native =
      std::endian::native == std::endian::little ? ByteOrder::kLittle : ByteOrder::kBig;
  const std::vector<std::byte> message = BytesFromHex(Encoded(RequestHeader(), args, native));
  ReadInlineBytes found;
  ASSERT_GE(message.size(), 40 + sizeof(found));
  std::memcpy(&found, message.data() + 40, sizeof(found));
  EXPECT_EQ(std::memcmp(found.filehandle, args.filehandle.fshandle.bytes.data(), 16), 0);
  EXPECT_EQ(std::memcmp(found.filehandle + 16, args.filehandle.fileid.bytes.data(), 48), 0);
  EXPECT_EQ(std::memcmp(found.state_id, args.state_id.bytes.data(), 8), 0);
  EXPECT_EQ(found.offset, args.offset);
  EXPECT_EQ(found.byte_count, args.byte_count);
  EXPECT_EQ(found.cache_hint, args.cache_hint);
}

// Shows DAFS-2.2-01: one request creates a file with the mode and the reservation of UNIX and
// Windows programs, the flags of Windows, and an access control list. Shows DAFS-4.4.3-01.
TEST(GoldenTest, OpenCarriesTheSemanticsOfUnixAndWindows) {
  OpenArgs args;
  args.open_type = OpenType::kCreate;
  args.pathname = {"file"};
  args.owner = "owner";
  args.share_access = kShareBoth;
  args.share_deny = kShareWrite;
  args.delete_disp = OpenDeleteDisp::kDeny;
  FileAttributes& attributes = args.createattrs;
  attributes.set(kFattrMode | kFattrHidden | kFattrSystem | kFattrArchive | kFattrAcl);
  attributes.mode = 04711;
  attributes.hidden = attributes.archive = true;
  attributes.acl = {{kAceDenied, kAceFileInherit, kAceWriteData, "OWNER@"},
                    {kAceAllowed, 0, kAceReadData, "user@example.com"}};
  for (const ByteOrder order : {ByteOrder::kLittle, ByteOrder::kBig}) {
    OpenArgs decoded;
    EXPECT_EQ(DecodeArgs(BytesFromHex(Encoded(RequestHeader(), args, order)), order, decoded),
              DafsStatus::kOk);
    EXPECT_EQ(decoded, args);
  }
}

}  // namespace
}  // namespace dafs::wire::testing
