// Which responses carry a result section (WIRE 9.3), for every procedure and every status; how
// clients decode them; the room that encoding needs.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "wire/codec/checksum.h"
#include "wire/codec/codec.h"

namespace dafs::wire {
namespace {

constexpr DafsStatus kStatuses[] = {
    DafsStatus::kPerm,
    DafsStatus::kNoEnt,
    DafsStatus::kIo,
    DafsStatus::kAcces,
    DafsStatus::kExist,
    DafsStatus::kNotDir,
    DafsStatus::kIsDir,
    DafsStatus::kInval,
    DafsStatus::kNameTooLong,
    DafsStatus::kStale,
    DafsStatus::kBadHandle,
    DafsStatus::kNotSupp,
    DafsStatus::kServerFault,
    DafsStatus::kDelay,
    DafsStatus::kDenied,
    DafsStatus::kSymlink,
    DafsStatus::kMoved,
    DafsStatus::kFhExpired,
    DafsStatus::kChainForm,
    DafsStatus::kChainBroken,
    DafsStatus::kGssContinueInit,
    DafsStatus::kNoCreds,
    DafsStatus::kChksum,
    DafsStatus::kNoPartialInfo,
    DafsStatus::kLockBroken,
    DafsStatus::kIllegalProt,
    DafsStatus::kIllegalState,
    DafsStatus::kNotAuthenticated,
};

// Shows DAFS-4.1.3.3-02: the bytes of an attribute that is included and not valid do not matter.
TEST(ResponsesTest, AttributeThatIsNotValidDecodesAsAbsent) {
  GetattrInlineRes res;
  res.obj_attributes.set(kFattrObjectSize | kFattrOwner | kFattrMode);
  res.obj_attributes.object_size = 77;
  res.obj_attributes.owner = "1000";
  res.obj_attributes.mode = 0600;
  for (const ByteOrder order : {ByteOrder::kLittle, ByteOrder::kBig}) {
    std::vector<std::byte> out(256);
    const auto size = EncodeResponse(ResponseHeader(), res, order, out);
    ASSERT_TRUE(size.ok());
    out.resize(*size);
    // The item of the attributes begins with the bitmaps `included` and `valid`.
    std::fill_n(out.begin() + 56, 8, std::byte{0});
    GetattrInlineRes decoded;
    ASSERT_TRUE(DecodeRes(out, order, DafsStatus::kOk, decoded).ok());
    EXPECT_EQ(decoded.obj_attributes.included, res.obj_attributes.included);
    FileAttributes none;
    none.included = res.obj_attributes.included;
    EXPECT_EQ(decoded.obj_attributes, none);
    EXPECT_FALSE(decoded.obj_attributes.has(kFattrOwner));
  }
}

// Shows DAFS-6.1.1.1-03: error responses also end on a multiple of 8.
TEST(ResponsesTest, ErrorResponseOfAnyProcedureDecodesToDefaults) {
  for (const ProcInfo& info : kProcedures) {
    for (const DafsStatus status : kStatuses) {
      ResponseHeader header;
      header.status = status;
      std::vector<std::byte> out(256, std::byte{0xaa});
      const auto size =
          EncodeErrorResponse(header, info.number, ByteOrder::kBig, out, {.checksum = true});
      ASSERT_TRUE(size.ok());
      out.resize(*size);
      const bool carries = CarriesResult(info.number, status) && info.res_size > 0;
      EXPECT_EQ(*size, carries ? (40u + info.res_size + 7) / 8 * 8 : 40u) << info.name;
      const auto decoded = DecodeResponseHeader(out, ByteOrder::kBig);
      ASSERT_TRUE(decoded.ok());
      EXPECT_EQ(decoded->header.status, status);
      EXPECT_EQ(decoded->header.message_checksum, MessageChecksum(out, ByteOrder::kBig));
      VisitProc(info.number, [&]<Proc kProc>() {
        if (kProc == Proc::kLock || kProc == Proc::kLockt) return;  // need the conflicting lock
        typename ProcTraits<kProc>::Res res;
        EXPECT_TRUE(DecodeRes(out, ByteOrder::kBig, status, res).ok())
            << info.name << " " << Name(status);
      });
    }
  }
}

// Shows DAFS-6.5.21-06
TEST(ResponsesTest, ResultSectionsFollowTheTableOfExceptions) {
  EXPECT_TRUE(CarriesResult(Proc::kLock, DafsStatus::kDenied));
  EXPECT_TRUE(CarriesResult(Proc::kLockt, DafsStatus::kLockBroken));
  EXPECT_FALSE(CarriesResult(Proc::kLocku, DafsStatus::kDenied));
  EXPECT_TRUE(CarriesResult(Proc::kLookup, DafsStatus::kNoEnt));
  EXPECT_FALSE(CarriesResult(Proc::kLookup, DafsStatus::kNoPartialInfo));
  EXPECT_FALSE(CarriesResult(Proc::kOpen, DafsStatus::kNoPartialInfo));
  EXPECT_FALSE(CarriesResult(Proc::kLookup, DafsStatus::kBadHandle));
  for (const auto claim :
       {OpenClaimType::kNull, OpenClaimType::kDelegateCur, OpenClaimType::kDelegatePrev}) {
    EXPECT_TRUE(CarriesResult(Proc::kOpen, DafsStatus::kNoEnt, claim));
  }
  EXPECT_FALSE(CarriesResult(Proc::kOpen, DafsStatus::kNoEnt, OpenClaimType::kPrevious));
  EXPECT_FALSE(CarriesResult(Proc::kOpen, DafsStatus::kNoEnt, OpenClaimType::kCreateUnlinked));
  EXPECT_TRUE(CarriesResult(Proc::kSetattrInline, DafsStatus::kPerm));
  EXPECT_FALSE(CarriesResult(Proc::kSetattrDirect, DafsStatus::kChainBroken));
  EXPECT_TRUE(CarriesResult(Proc::kClientAuth, DafsStatus::kGssContinueInit));
  EXPECT_FALSE(CarriesResult(Proc::kNull, DafsStatus::kNoEnt));
}

// WIRE 9.3: a receiver decides by response_len.
TEST(ResponsesTest, BareHeaderStandsForASectionOfZeros) {
  ResponseHeader header;
  header.status = DafsStatus::kNoEnt;
  std::vector<std::byte> out(40);
  EncodeResponseHeaderOnly(header, ByteOrder::kLittle, out, false);
  LookupRes res;
  res.component_count = 5;
  EXPECT_TRUE(DecodeRes(out, ByteOrder::kLittle, header.status, res).ok());
  EXPECT_EQ(res, LookupRes());
  EXPECT_TRUE(absl::IsDataLoss(DecodeRes(out, ByteOrder::kLittle, DafsStatus::kOk, res)));
}

TEST(ResponsesTest, FailedOpenReturnsOnlyTheLastHandleAndTheCount) {
  OpenRes res;
  res.component_count = 2;
  res.filehandle.fileid.bytes[3] = 9;
  res.state_id.bytes[0] = 1;  // undefined with an error
  res.result_flags = 1;
  ResponseHeader header;
  header.status = DafsStatus::kNoEnt;
  std::vector<std::byte> out(192);
  ASSERT_EQ(EncodeResponse(header, res, ByteOrder::kLittle, out).value_or(0), 192u);
  // The decoder ignores any value in the undefined fields.
  out[40 + 104] = std::byte{0x77};
  OpenRes decoded;
  ASSERT_TRUE(DecodeRes(out, ByteOrder::kLittle, header.status, decoded).ok());
  OpenRes expected;
  expected.component_count = 2;
  expected.filehandle = res.filehandle;
  EXPECT_EQ(decoded, expected);
}

TEST(ResponsesTest, FailedReadSendsNoDataEvenIfSomeWasReady) {
  std::vector<std::byte> out(256);
  const std::vector<std::byte> data(100, std::byte{7});
  ResponseHeader header;
  header.status = DafsStatus::kIo;
  EncodeOptions options;
  options.inline_data.data = data;
  EXPECT_EQ(EncodeResponse(header, ReadInlineRes(), ByteOrder::kLittle, out, options).value_or(0),
            40u);
}

// The server reads the file directly to its place in the send buffer.
TEST(ResponsesTest, ReadDataAlreadyInPlaceIsNotMoved) {
  std::vector<std::byte> out(48 + 16, std::byte{0xaa});
  const std::span<std::byte> place = std::span(out).subspan(48, 13);
  for (std::byte& b : place) b = std::byte{0x42};
  ReadInlineRes res;
  res.bytes_read = 13;
  EncodeOptions options;
  options.inline_data.data = place;
  EXPECT_EQ(EncodeResponse(ResponseHeader(), res, ByteOrder::kLittle, out, options).value_or(0),
            64u);
  const auto data = FindInlineData(out, res);
  ASSERT_TRUE(data.ok());
  EXPECT_EQ(data->data(), place.data());
  EXPECT_EQ(out[48 + 12], std::byte{0x42});
  EXPECT_EQ(out[48 + 13], std::byte{0});
}

TEST(ResponsesTest, ValuesBeyondTheLimitsAreNotEncoded) {
  LookupArgs args;
  args.path = {std::string(1025, 'n')};
  std::vector<std::byte> out(8192);
  EXPECT_EQ(DafsFromStatus(EncodeRequest(RequestHeader(), args, ByteOrder::kLittle, out).status()),
            DafsStatus::kNameTooLong);
  args.path.assign(1025, "a");
  out.resize(64 << 10);
  EXPECT_EQ(DafsFromStatus(EncodeRequest(RequestHeader(), args, ByteOrder::kLittle, out).status()),
            DafsStatus::kInval);
}

}  // namespace
}  // namespace dafs::wire
