// A client of a ScriptedServer, on one loop and one thread.
#pragma once

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/exchange/report.h"
#include "client/files/files.h"
#include "client/session/session.h"
#include "client/state/client.h"
#include "runtime/loop/run.h"
#include "tests/client/scripted_server.h"

namespace dafs::client::testing {

#define EXPECT_OK(...)                                       \
  EXPECT_TRUE(::dafs::client::testing::In(__VA_ARGS__).ok()) \
      << ::dafs::client::testing::In(__VA_ARGS__)
#define ASSERT_OK(...)                                       \
  ASSERT_TRUE(::dafs::client::testing::In(__VA_ARGS__).ok()) \
      << ::dafs::client::testing::In(__VA_ARGS__)

inline const absl::Status& In(const absl::Status& status) { return status; }
template <class T>
const absl::Status& In(const absl::StatusOr<T>& result) {
  return result.status();
}

class ScriptedTest : public ::testing::Test {
 protected:
  ScriptedTest() {
    options_.providers = {&server_};
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(20149);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    options_.addresses = {dat::Address(reinterpret_cast<sockaddr*>(&address), sizeof(address))};
    options_.server_name = "scripted";
    options_.client_id_string = "a test";
    options_.max_requests = 16;
    options_.buffers.bytes = size_t{8} << 20;
    options_.backoff_least = absl::Milliseconds(1);
  }

  // Ends the operations that a test left waiting. Files and session shut down before the loop is
  // destroyed.
  ~ScriptedTest() override {
    if (files_ != nullptr) files_->Shutdown();
    files_.reset();
    if (session_ != nullptr) session_->Kill(absl::CancelledError("the test ends"));
    session_.reset();
    EXPECT_THAT(server_.violations, ::testing::IsEmpty());
  }

  void MakeClient() {
    auto client = Client::Create(options_);
    ASSERT_OK(client);
    client_ = *std::move(client);
    Loop::Options quiet;
    quiet.max_spin = absl::ZeroDuration();
    loop_ = *Loop::Create(quiet);
  }
  void MakeFiles() {
    MakeClient();
    auto files = Files::Create(*client_, *loop_);
    ASSERT_OK(files);
    files_ = *std::move(files);
  }
  absl::Status MakeSession() {
    MakeClient();
    auto session =
        Session::Create(*client_, *loop_, server_, options_.addresses[0], pool_.get(), totals_);
    if (!session.ok()) return session.status();
    session_ = *std::move(session);
    return Await(session_->Establish(Loop::Now() + absl::Seconds(10)));
  }

  template <class T>
  T Await(Task<T> task) {
    return RunUntilDone(*loop_, std::move(task));
  }
  // Runs the loop until `done` returns true; returns false after 30 s.
  bool Until(const std::function<bool()>& done) {
    const absl::Time end = Loop::Now() + absl::Seconds(30);
    while (!done()) {
      if (Loop::Now() > end) return false;
      loop_->RunOnce(absl::Milliseconds(20));
    }
    return true;
  }
  // Runs everything that needs no wait.
  void Settle() {
    for (int i = 0; i < 50; ++i) loop_->RunOnce(absl::ZeroDuration());
  }
  SessionReport ReportOf(const Session& session) {
    SessionReport report;
    session.Fill(report);
    return report;
  }

  ScriptedServer server_;
  ClientOptions options_;
  std::unique_ptr<Client> client_;
  std::unique_ptr<Loop> loop_;
  wire::CallTotals totals_;
  std::unique_ptr<BufferPool> pool_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<Files> files_;
  Identity user_{1000, 100, {100, 4}};
};

}  // namespace dafs::client::testing
