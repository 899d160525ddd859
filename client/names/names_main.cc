// dafs-names: asks the name services for a name, and prints what they say as JSON (answers.h). A
// program of its own, since the libraries of DNS and LDAP would cost each mount memory, may block,
// and read what machines of the network send. mount.dafs and dafsctl run it (name_query.h).
//
//   dafs-names first|all NAME [CONF]
//
// Exit status 1: names.conf or the name is wrong; one line on standard output says why.
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "absl/status/statusor.h"
#include "client/names/answers.h"
#include "client/names/location.h"
#include "client/names/names_conf.h"
#include "client/names/services.h"

int main(int argc, char** argv) {
  if (argc < 3 || argc > 4) {
    std::puts("usage: dafs-names first|all NAME [CONF]");
    return 1;
  }
  // A bound for what a reply can cost, whatever the libraries do.
  constexpr rlim_t kMostCpuSeconds = 10;
  const rlimit most = {kMostCpuSeconds, kMostCpuSeconds};
  setrlimit(RLIMIT_CPU, &most);
  const std::string name = argv[2];
  absl::Status bad = dafs::names::CheckName(name);
  const absl::StatusOr<dafs::names::NamesConf> conf =
      dafs::names::ReadNamesConf(argc == 4 ? argv[3] : "");
  if (bad.ok()) bad = conf.status();
  if (!bad.ok()) {
    std::printf("%s\n", std::string(bad.message()).c_str());
    return 1;
  }
  // libldap reads a file of the current directory, ldaprc, which any user may have put there.
  if (chdir("/") != 0) return 1;
  const bool all = std::strcmp(argv[1], "all") == 0;
  std::fputs(dafs::names::ToJson(dafs::names::AskServices(*conf, name, all)).c_str(), stdout);
  std::fflush(stdout);
  _exit(0);  // without waiting for lookups that are late
}
