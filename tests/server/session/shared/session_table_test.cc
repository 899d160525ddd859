// The limits on connections, in total and for each host.
#include "server/session/shared/session_table.h"

#include <gtest/gtest.h>

namespace dafs::server {
namespace {

SessionTable::Place From(const char* address, bool admitted = true) {
  return SessionTable::PlaceOf(*PeerAddress::Parse(address), admitted);
}

TEST(SessionTableTest, CountsAnIPv6NetworkOf64BitsAsOneHost) {
  SessionTable table(/*max_sessions=*/100, /*max_sessions_per_address=*/2);
  EXPECT_TRUE(table.Admit(From("2001:db8::1")).ok());
  EXPECT_TRUE(table.Admit(From("2001:db8::2")).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(table.Admit(From("2001:db8::ffff:3"))));
  EXPECT_TRUE(table.Admit(From("2001:db8:0:1::3")).ok());
  table.Leave(From("2001:db8::7"));
  EXPECT_TRUE(table.Admit(From("2001:db8::3")).ok());
  // IPv4 addresses are single hosts, in either notation.
  for (const char* address : {"192.0.2.1", "192.0.2.2", "::ffff:192.0.2.2", "::ffff:192.0.2.1"}) {
    EXPECT_TRUE(table.Admit(From(address)).ok()) << address;
  }
  EXPECT_FALSE(table.Admit(From("192.0.2.1")).ok());
}

TEST(SessionTableTest, UnadmittedClientsUseNoPlacesOfAdmittedClients) {
  SessionTable table(/*max_sessions=*/2, /*max_sessions_per_address=*/2);
  for (uint32_t i = 0; i < SessionTable::kMaxStrangersPerAddress; ++i) {
    EXPECT_TRUE(table.Admit(From("192.0.2.1", false)).ok());
  }
  EXPECT_FALSE(table.Admit(From("192.0.2.1", false)).ok());
  uint32_t others = SessionTable::kMaxStrangersPerAddress;
  for (int host = 2; table.Admit(From(("192.0.2." + std::to_string(host)).c_str(), false)).ok();
       ++host) {
    ++others;
  }
  EXPECT_EQ(others, SessionTable::kMaxStrangers);
  EXPECT_TRUE(table.Admit(From("192.0.2.1")).ok());
  EXPECT_TRUE(table.Admit(From("192.0.2.1")).ok());
  EXPECT_FALSE(table.Admit(From("192.0.2.3")).ok());
  table.Leave(From("192.0.2.1"));
  EXPECT_TRUE(table.Admit(From("192.0.2.3")).ok());
}

}  // namespace
}  // namespace dafs::server
