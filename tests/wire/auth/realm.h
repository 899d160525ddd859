// A realm on loopback (tests/realm), for this process. Needs root, krb5-kdc, krb5-admin-server and
// krb5-user.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <string>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace dafs::auth {

inline uint16_t FreePort() {
  const int s = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* any = reinterpret_cast<sockaddr*>(&address);
  const bool is_bound = bind(s, any, size) == 0 && getsockname(s, any, &size) == 0;
  close(s);
  return is_bound ? ntohs(address.sin_port) : 0;
}

class Realm {
 public:
  Realm() {
    char name[] = "/tmp/dafs-realm-XXXXXX";
    if (mkdtemp(name) == nullptr) return;
    folder_ = name;
    chmod(name, 0711);  // users read krb5.conf
    const std::string port = std::to_string(FreePort());
    Enter();
    unsetenv("KRB5_KTNAME");
    process_ = fork();
    if (process_ == 0) {
      execl(DAFS_SOURCE_DIR "/tests/realm", "realm", folder_.c_str(), port.c_str(), nullptr);
      _exit(127);
    }
    // Until the KDC serves; it listens soon after the file exists.
    for (int i = 0; i < 1200 && !serves_; ++i) {
      if (waitpid(process_, nullptr, WNOHANG) == process_) {
        process_ = -1;
        return;
      }
      serves_ = access((folder_ + "/ready").c_str(), F_OK) == 0 &&
                system(("KRB5CCNAME=" + folder_ + "/cc kinit -k -t " + folder_ +
                        "/alice.keytab alice >/dev/null 2>&1")
                           .c_str()) == 0;
      if (!serves_) absl::SleepFor(absl::Milliseconds(50));
    }
  }
  ~Realm() {
    if (process_ > 0) {
      kill(process_, SIGTERM);
      waitpid(process_, nullptr, 0);
    }
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }
  bool serves() const { return serves_; }
  // The library uses this realm from now on.
  void Enter() const { setenv("KRB5_CONFIG", Path("krb5.conf").c_str(), 1); }
  std::string Path(const std::string& name) const { return folder_ + "/" + name; }

 private:
  std::string folder_;
  pid_t process_ = -1;
  bool serves_ = false;
};

}  // namespace dafs::auth
