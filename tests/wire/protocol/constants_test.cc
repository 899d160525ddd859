// The numbers that the specification gives to the values of its enumerations. The other tests of
// this program and the server use the same names, so they would not notice two exchanged numbers.
#include "wire/protocol/constants.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string_view>

namespace dafs::wire {
namespace {

struct Assigned {
  std::string_view name;
  uint32_t number;
  uint32_t assigned;  // by the specification
};

template <class Enum>
constexpr uint32_t NumberOf(Enum value) {
  return static_cast<uint32_t>(value);
}

// Shows DAFS-6.1.8-01, DAFS-6.1.9-01, DAFS-6.1.4-07, DAFS-6.5.9-10, DAFS-6.5.18-01 (the types of
// locks), DAFS-6.2.5-01 (the channels), DAFS-6.2.8-02 and DAFS-6.4.2-01 (the numbers).
TEST(ConstantsTest, EnumeratorsHaveTheNumbersOfTheSpecification) {
  constexpr Assigned kAssigned[] = {
      {"normal", NumberOf(AccessPattern::kNormal), 0},
      {"random", NumberOf(AccessPattern::kRandom), 1},
      {"sequential", NumberOf(AccessPattern::kSequential), 2},
      {"will-need", NumberOf(AccessPattern::kWillNeed), 3},
      {"don't-need", NumberOf(AccessPattern::kDontNeed), 4},
      {"no authentication", NumberOf(AuthType::kNone), 0},
      {"text", NumberOf(AuthType::kText), 1},
      {"GSS", NumberOf(AuthType::kGss), 2},
      {"default authentication", NumberOf(AuthType::kDefault), 3},
      {"credential by name", NumberOf(CredType::kName), 0},
      {"credential by ids", NumberOf(CredType::kId), 1},
      {"credential by GSS name", NumberOf(CredType::kGss), 2},
      {"default credential", NumberOf(CredType::kDefault), 3},
      {"back-control channel", NumberOf(ChannelUse::kBackControl), 1},
      {"RDMA-read channel", NumberOf(ChannelUse::kRdmaRead), 2},
      {"directory", NumberOf(ObjectType::kDir), 2},
      {"block device", NumberOf(ObjectType::kBlk), 3},
      {"character device", NumberOf(ObjectType::kChr), 4},
      {"symbolic link", NumberOf(ObjectType::kLnk), 5},
      {"socket", NumberOf(ObjectType::kSock), 6},
      {"FIFO", NumberOf(ObjectType::kFifo), 7},
      {"attribute directory", NumberOf(ObjectType::kAttrDir), 8},
      {"named attribute", NumberOf(ObjectType::kNamedAttr), 9},
      {"read lock", NumberOf(LockType::kRead), 1},
      {"write lock", NumberOf(LockType::kWrite), 2},
      {"blocking read lock", NumberOf(LockType::kReadBlocking), 3},
      {"blocking write lock", NumberOf(LockType::kWriteBlocking), 4},
      {"abort", NumberOf(LockType::kAbort), 5},
      {"fence of a file", NumberOf(FenceObject::kFile), 1},
      {"fence of a file system", NumberOf(FenceObject::kFilesystem), 2},
      {"allow by fence", NumberOf(FenceAccess::kAllow), 1},
      {"deny by fence", NumberOf(FenceAccess::kDeny), 2},
      {"overwrite", NumberOf(FenceUpdate::kOverwrite), 1},
      {"append", NumberOf(FenceUpdate::kAppend), 2},
      {"remove", NumberOf(FenceUpdate::kRemove), 3},
      {"ACE allow", kAceAllowed, 0},
      {"ACE deny", kAceDenied, 1},
      {"ACE audit", kAceAudit, 2},
      {"ACE alarm", kAceAlarm, 4},
  };
  for (const auto& [name, number, assigned] : kAssigned) EXPECT_EQ(number, assigned) << name;
}

}  // namespace
}  // namespace dafs::wire
