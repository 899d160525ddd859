// The kernel's end of a FUSE connection: a socket pair that keeps message boundaries as /dev/fuse
// does. A test writes requests as the kernel does, and reads the replies.
// Needs no privileges and no mount. Use from one thread.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "fuse/kernel/channel.h"
#include "fuse/kernel/protocol.h"

namespace dafs::fuse {

template <class T>
std::string Raw(const T& value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
}
inline std::string Name(const std::string& name) { return name + '\0'; }

class FakeKernel {
 public:
  struct Answer {
    uint64_t unique = 0;
    int error = 0;  // a positive errno value; 0: success
    std::string body;

    template <class T>
    T As(size_t at = 0) const {
      T value{};
      EXPECT_GE(body.size(), at + sizeof(T));
      if (body.size() >= at + sizeof(T)) std::memcpy(&value, body.data() + at, sizeof(T));
      return value;
    }
  };

  FakeKernel() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    kernel_ = UniqueFd(ends[0]);
    worker_ = UniqueFd(ends[1]);
    int bytes = 4 << 20;
    for (int end : ends) {
      setsockopt(end, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof(bytes));
    }
  }

  UniqueFd TakeWorkerEnd() { return std::move(worker_); }
  // Closes the kernel's end, as umount does.
  void HangUp() { kernel_.Close(); }

  uint32_t uid = 0, gid = 0, pid = 0;  // the caller of the requests that follow

  // Sends a request, and returns its number. `length` is the length in the header; 0: the true one.
  uint64_t Send(uint32_t opcode, uint64_t nodeid, const std::string& body, uint32_t length = 0) {
    fuse_in_header header = {};
    header.len = length != 0 ? length : static_cast<uint32_t>(sizeof(header) + body.size());
    header.opcode = opcode;
    header.unique = next_ += 2;
    header.nodeid = nodeid;
    header.uid = uid;
    header.gid = gid;
    header.pid = pid;
    SendRaw(Raw(header) + body);
    return header.unique;
  }
  void SendRaw(const std::string& bytes) {
    EXPECT_EQ(write(kernel_.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  }

  // Returns the next message from the worker. `unique` 0 with `error` 0: none arrived in time.
  Answer Receive(int wait_ms = 20000) {
    pollfd wait = {.fd = kernel_.get(), .events = POLLIN, .revents = 0};
    if (poll(&wait, 1, wait_ms) <= 0) return {};
    std::string bytes((2 << 20), '\0');
    ssize_t got = read(kernel_.get(), bytes.data(), bytes.size());
    fuse_out_header header = {};
    if (got < static_cast<ssize_t>(sizeof(header))) return {};
    std::memcpy(&header, bytes.data(), sizeof(header));
    EXPECT_EQ(header.len, got);
    bytes.resize(static_cast<size_t>(got));
    return {header.unique, header.unique == 0 ? header.error : -header.error,
            bytes.substr(sizeof(header))};
  }

  // Sends a request and waits for its reply. Adds earlier messages to `notifications`.
  Answer Call(uint32_t opcode, uint64_t nodeid, const std::string& body) {
    uint64_t unique = Send(opcode, nodeid, body);
    for (;;) {
      Answer answer = Receive();
      if (answer.unique == unique) return answer;
      if (answer.unique != 0 || answer.error == 0) {
        ADD_FAILURE() << "opcode " << opcode << ": no answer";
        answer.error = -1;
        return answer;
      }
      notifications.push_back(answer);
    }
  }

  static std::string InitBody() {
    fuse_init_in init = {};
    init.major = FUSE_KERNEL_VERSION;
    init.minor = 45;
    init.max_readahead = 128 << 10;
    init.flags = 0xffffffff;
    init.flags2 = 0xffffffff;
    return Raw(init);
  }

  std::vector<Answer> notifications;

 private:
  UniqueFd kernel_;
  UniqueFd worker_;
  uint64_t next_ = 0;
};

}  // namespace dafs::fuse
