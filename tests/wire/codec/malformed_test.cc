// Messages that are not canonical but accepted, and messages that are refused, each with the status
// that the vectors name.
#include <gtest/gtest.h>

#include <vector>

#include "tests/wire/vectors.h"
#include "wire/codec/direct.h"
#include "wire/rules/request_check.h"

namespace dafs::wire::testing {
namespace {

// A server with the usual state: an authenticated session without checksums.
RequestContext PlainContext(ByteOrder order) {
  RequestContext context;
  context.order = order;
  context.has_session = true;
  context.authenticated = true;
  context.granted_nreq = 16;
  return context;
}

// CLIENT_CONNECT is the one vector that arrives before a session exists.
RequestContext ContextFor(const Json& vector) {
  RequestContext context = PlainContext(OrderOf(vector));
  const Proc proc = ProcOf(vector);
  if (proc == Proc::kClientConnect || proc == Proc::kClientConnectAuth ||
      proc == Proc::kConnectBind) {
    context.has_session = context.authenticated = false;
    context.order = std::nullopt;
  }
  return context;
}

struct Answer {
  bool close_channel = false;
  DafsStatus status = DafsStatus::kOk;
};

// Returns the server's verdict, up to and including step 10.
Answer Examine(const std::vector<std::byte>& message, const RequestContext& context) {
  ChainState chain;
  const RequestVerdict verdict = CheckRequest(message, context, chain);
  Answer answer = {verdict.close_channel, verdict.status};
  if (verdict.close_channel || verdict.status != DafsStatus::kOk) return answer;
  VisitProc(verdict.header.procedure, [&]<Proc kProc>() {
    typename ProcTraits<kProc>::Args args;
    std::span<const std::byte> data;
    answer.status = CheckArgs(message, verdict, 0, args, data);
  });
  return answer;
}

// Returns whether a client accepts a response.
template <Proc kProc>
bool ResponseOk(const std::vector<std::byte>& message, ByteOrder order) {
  const auto header = DecodeResponseHeader(message, order);
  if (!header.ok()) return false;
  typename ProcTraits<kProc>::Res res;
  if (!DecodeRes(message, order, header->header.status, res).ok()) return false;
  if constexpr (kProc == Proc::kReadInline) return FindInlineData(message, res).ok();
  return true;
}

// The same with the reader that clients use for READDIR.
bool ReaddirOk(const std::vector<std::byte>& message, ByteOrder order) {
  if (message.size() < kHeaderSize) return false;
  DirentReader reader;
  Verifier cookieverf;
  bool eof = false;
  if (!reader.OpenInline(message, order, cookieverf, eof).ok()) return false;
  DirentView entry;
  while (reader.Next(entry)) {
  }
  return reader.status().ok();
}

// Shows DAFS-6.1.10-01: unassigned procedure numbers are refused.
// Shows DAFS-7-11, DAFS-7-13: NAMETOOLONG, NOTSUPP.
TEST(MalformedTest, EveryMalformedRequestReturnsItsStatus) {
  size_t requests = 0;
  size_t closed = 0;
  for (const Json& vector : LoadVectors("malformed.json")) {
    if (!IsRequest(vector)) continue;
    SCOPED_TRACE(NameOf(vector) + ": " + vector.at("reason").get<std::string>());
    const Answer answer = Examine(MessageOf(vector), ContextFor(vector));
    const bool close = vector.at("channel_closed").get<bool>();
    EXPECT_EQ(answer.close_channel, close);
    if (!close) {
      EXPECT_EQ(Name(answer.status), vector.at("status_name").get<std::string>());
      EXPECT_EQ(static_cast<uint32_t>(answer.status), vector.at("status").get<uint32_t>());
    }
    ++requests;
    closed += close;
  }
  EXPECT_EQ(requests, 308u);
  EXPECT_EQ(closed, 20u);
}

TEST(MalformedTest, EveryMalformedResponseEndsTheSession) {
  size_t responses = 0;
  for (const Json& vector : LoadVectors("malformed.json")) {
    if (IsRequest(vector)) continue;
    SCOPED_TRACE(NameOf(vector) + ": " + vector.at("reason").get<std::string>());
    const std::vector<std::byte> message = MessageOf(vector);
    VisitProc(ProcOf(vector),
              [&]<Proc kProc>() { EXPECT_FALSE(ResponseOk<kProc>(message, OrderOf(vector))); });
    if (ProcOf(vector) == Proc::kReaddirInline) {
      EXPECT_FALSE(ReaddirOk(message, OrderOf(vector)));
    }
    ++responses;
  }
  EXPECT_EQ(responses, 40u);
}

// Shows DAFS-6.1.1.2-03: heap items in any order.
TEST(AcceptedTest, NonCanonicalFormsGiveTheSameValues) {
  size_t done = 0;
  for (const Json& vector : LoadVectors("accepted.json")) {
    SCOPED_TRACE(NameOf(vector) + ": " + vector.at("why").get<std::string>());
    const std::vector<std::byte> message = MessageOf(vector);
    const ByteOrder order = OrderOf(vector);
    const Json& body = vector.at("body");
    VisitProc(ProcOf(vector), [&]<Proc kProc>() {
      JsonWriter writer;
      if (IsRequest(vector)) {
        EXPECT_EQ(Examine(message, ContextFor(vector)).status, DafsStatus::kOk);
        using Args = typename ProcTraits<kProc>::Args;
        Args args;
        EXPECT_EQ(DecodeArgs(message, order, args), DafsStatus::kOk);
        EXPECT_EQ(WithoutDerived(DecodeRequestHeader(message, order)->header),
                  RequestHeaderOf(vector));
        Args::Fields(args, writer);
      } else {
        EXPECT_TRUE(ResponseOk<kProc>(message, order));
        using Res = typename ProcTraits<kProc>::Res;
        Res res;
        EXPECT_TRUE(DecodeRes(message, order, DafsStatus::kOk, res).ok());
        ResponseHeader header = WithoutDerived(DecodeResponseHeader(message, order)->header);
        header.attributes_at = 0;  // reserved, and ignored, if the request wanted no attributes
        EXPECT_EQ(header, ResponseHeaderOf(vector));
        Res::Fields(res, writer);
        if (kProc == Proc::kReaddirInline) {
          EXPECT_TRUE(ReaddirOk(message, order));
        }
      }
      EXPECT_EQ(writer.Take(), body.is_null() ? Json::object() : body);
    });
    ++done;
  }
  EXPECT_EQ(done, 24u);
}

}  // namespace
}  // namespace dafs::wire::testing
