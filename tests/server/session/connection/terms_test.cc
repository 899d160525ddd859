// The terms of a session.
#include "server/session/connection/terms.h"

#include <gtest/gtest.h>

namespace dafs::server {
namespace {

TEST(TermsTest, ReadChannelFollowsTheOptionAndThenTheClient) {
  struct Case {
    RdmaReadChannel option;
    bool asked;
    bool granted;
  };
  for (const Case& each :
       {Case{RdmaReadChannel::kNever, true, false}, Case{RdmaReadChannel::kOffered, false, false},
        Case{RdmaReadChannel::kOffered, true, true},
        Case{RdmaReadChannel::kRequired, false, true}}) {
    ServerOptions options;
    options.rdma_read_channel = each.option;
    wire::ClientConnectArgs args;
    args.use_rdma_read_channel = each.asked;
    EXPECT_EQ(Negotiate(options, args).use_rdma_read_channel, each.granted);
  }
}

// WIRE 11.3. tests/server/session/session_test.cc has the bounds of a running server.
TEST(TermsTest, MessageSizesAreMultiplesOf8WithinTheBounds) {
  ServerOptions options;
  options.default_message_bytes = 8192;
  options.max_message_bytes = 65536;
  wire::ClientConnectArgs args;
  wire::ClientConnectRes res = Negotiate(options, args);
  EXPECT_EQ(res.max_request_size, 8192u);
  EXPECT_EQ(res.max_response_size, 8192u);
  EXPECT_EQ(res.inline_write_header_size, 0u);  // the client has no preference
  args.max_request_size = 5007;
  args.max_response_size = 1u << 20;
  args.inline_write_header_size = 1u << 20;
  res = Negotiate(options, args);
  EXPECT_EQ(res.max_request_size, 5000u);
  EXPECT_EQ(res.max_response_size, 65536u);
  EXPECT_EQ(res.inline_write_header_size, 5000u);
  args.max_request_size = 1;
  args.inline_write_header_size = 1;
  res = Negotiate(options, args);
  EXPECT_EQ(res.max_request_size, 1024u);
  EXPECT_EQ(res.inline_write_header_size, 136u);
}

TEST(TermsTest, ExtensionsStayGranted) {
  Terms terms;
  EXPECT_FALSE(terms.has_session());
  EXPECT_FALSE(terms.KeepsAtime(wire::kCacheHintKeepAtime));
  terms.Grant(wire::kExtensionReadKeepsAtime);
  terms.Grant(wire::kExtensionByteNames);
  EXPECT_TRUE(terms.Has(wire::kExtensionByteNames));
  EXPECT_FALSE(terms.Has(wire::kExtensionKeepAtime));
  EXPECT_TRUE(terms.KeepsAtime(wire::kCacheHintKeepAtime));
  EXPECT_FALSE(terms.KeepsAtime(0));
}

}  // namespace
}  // namespace dafs::server
