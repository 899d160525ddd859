#include "wire/rpcrdma/properties.h"

#include <gtest/gtest.h>

#include "tests/wire/rpcrdma/hex.h"

namespace dafs::rpcrdma {
namespace {

using testing::Hex;

// Shows RPCRDMA2-6.2-01, RPCRDMA2-6.2.2-01.
TEST(RpcRdmaProperties, CodesValuesAndDefaults) {
  EXPECT_EQ(Properties().receive_size, 4096u);
  EXPECT_EQ(Properties().backward, BackwardSupport::kInline);
  EXPECT_EQ(ReceiveSizeValue(0x2000), (PropertyValue{1, Hex("00002000")}));
  EXPECT_EQ(BackwardValue(BackwardSupport::kNone), (PropertyValue{2, Hex("00000000")}));
  EXPECT_EQ(BackwardValue(BackwardSupport::kInline), (PropertyValue{2, Hex("00000001")}));
  EXPECT_EQ(BackwardValue(BackwardSupport::kGeneral), (PropertyValue{2, Hex("00000002")}));
}

// Shows RPCRDMA2-6.1.1-01.
TEST(RpcRdmaProperties, DataOfNoBytesMeanTheDefault) {
  Properties properties = {8192, BackwardSupport::kGeneral};
  ASSERT_TRUE(CheckProperties({{1, {}}, {2, {}}}).ok());
  ApplyProperty({1, {}}, properties);
  ApplyProperty({2, {}}, properties);
  EXPECT_EQ(properties, Properties());
}

// Shows RPCRDMA2-6.1.1-03.
TEST(RpcRdmaProperties, DataOfAnotherTypeAreRefused) {
  EXPECT_TRUE(absl::IsDataLoss(CheckProperties({{1, Hex("0020")}})));
  EXPECT_TRUE(absl::IsDataLoss(CheckProperties({{1, Hex("0000200000")}})));
  EXPECT_TRUE(absl::IsDataLoss(CheckProperties({{2, Hex("00000003")}})));
  EXPECT_TRUE(CheckProperties({{2, Hex("00000002")}}).ok());
}

// Shows RPCRDMA2-6.1.1-04, RPCRDMA2-6.4-01: codes for experiments are like any unknown code.
TEST(RpcRdmaProperties, UnknownPropertiesAreIgnored) {
  const PropertySet set = {
      {kFirstExperimentalProperty, Hex("01")}, {4294967295, {}}, ReceiveSizeValue(8192)};
  ASSERT_TRUE(CheckProperties(set).ok());
  Properties properties;
  for (const PropertyValue& value : set) ApplyProperty(value, properties);
  EXPECT_EQ(properties.receive_size, 8192u);
  EXPECT_FALSE(IsKnownProperty(kFirstExperimentalProperty));
}

TEST(RpcRdmaProperties, AReceiveSizeBelowTheDefaultCountsAsTheDefault) {
  Properties properties;
  ApplyProperty(ReceiveSizeValue(1), properties);
  EXPECT_EQ(properties.receive_size, kDefaultInline);
}

// Shows RPCRDMA2-6.1.1-05.
TEST(RpcRdmaProperties, ASubsetIsAMaskInWordsOf32Bits) {
  PropertySubset subset;
  AddToSubset(subset, 0);
  AddToSubset(subset, 33);
  EXPECT_EQ(subset, (PropertySubset{1, 2}));
  EXPECT_TRUE(InSubset(subset, 33));
  EXPECT_FALSE(InSubset(subset, 1));
  EXPECT_FALSE(InSubset(subset, 64));  // a missing word
}

// Shows RPCRDMA2-6.3.3-07, RPCRDMA2-6.3.3-05, RPCRDMA2-6.3.3-04.
TEST(RpcRdmaProperties, AResponseIsJudgedItemByItem) {
  const PropertySet wanted = {ReceiveSizeValue(9000),
                              BackwardValue(BackwardSupport::kNone),
                              {7, {}},
                              {8, {}},
                              {9, {}},
                              {10, {}}};
  PropertiesBody response;
  response.done = {0b000101};                           // 0 and 2
  response.rejected = {0b010110};                       // 1, 2 (overlaps) and 4
  response.values = {{8, Hex("aa")}, {55, Hex("bb")}};  // 3, and one that was not requested
  PropertySet other;
  EXPECT_EQ(JudgeResponse(wanted, response, &other),
            (std::vector<Change>{Change::kDone, Change::kRejected, Change::kRejected,
                                 Change::kOther, Change::kRejected, Change::kRejected}));
  EXPECT_EQ(other, (PropertySet{{8, Hex("aa")}}));
}

}  // namespace
}  // namespace dafs::rpcrdma
