// Writes dafs.lua, the dissector for Wireshark: the generated tables and, after them,
// dissector.lua. Usage: dafs_wireshark DISSECTOR.LUA OUTPUT. A step of the build runs it.
#include <cstdio>
#include <exception>
#include <fstream>
#include <iterator>
#include <string>

#include "wire/wireshark/tables.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: dafs_wireshark DISSECTOR.LUA OUTPUT\n");
    return 2;
  }
  std::ifstream source(argv[1]);
  const std::string dissector((std::istreambuf_iterator<char>(source)), {});
  if (!source.good() || dissector.empty()) {
    std::fprintf(stderr, "dafs_wireshark: %s: cannot be read\n", argv[1]);
    return 1;
  }
  std::string tables;
  try {
    tables = dafs::wire::wireshark::Tables();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "dafs_wireshark: %s\n", error.what());
    return 1;
  }
  std::ofstream output(argv[2]);
  output << "-- DAFS for Wireshark and tshark. Generated: the tables come from wire/messages, the "
            "code after them from\n"
            "-- wire/wireshark/dissector.lua.\n"
         << tables << '\n'
         << dissector;
  output.close();
  if (!output.good()) {
    std::fprintf(stderr, "dafs_wireshark: %s: cannot be written\n", argv[2]);
    return 1;
  }
  return 0;
}
