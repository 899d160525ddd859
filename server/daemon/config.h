// The content of the command line and the configuration file (server/daemon/config_parser.h).
#pragma once

#include <string>

#include "server/clients/options.h"

namespace dafs::server {

struct Config {
  ServerOptions server;
  bool foreground = false;
  bool verbose = false;
  bool confine = true;   // server/daemon/confinement.h
  bool standby = false;  // server/daemon/standby.h
  std::string pid_file;
  std::string keytab;     // the server's Kerberos keys; empty: not given
  std::string id_domain;  // empty: owners are numbers
  // If not empty: print it and exit with 0 (--help, --version).
  std::string answer;
};

}  // namespace dafs::server
