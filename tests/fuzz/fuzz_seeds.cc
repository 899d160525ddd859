// fuzz_seeds VECTORS OUT: writes the seed corpus of every target, OUT/<target>/<vector>, from the
// golden vectors.
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "wire/protocol/procedures.h"

namespace {

using Json = nlohmann::json;

std::string FromHex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

void Write(const std::filesystem::path& out, const char* target, const std::string& name,
           const std::string& bytes) {
  std::filesystem::create_directories(out / target);
  std::ofstream(out / target / name, std::ios::binary) << bytes;
}

// Returns the index of a procedure in the table, as fuzz_response and fuzz_server read it.
char RowOf(uint32_t number) {
  for (size_t i = 0; i < dafs::wire::kProcedures.size(); ++i) {
    if (static_cast<uint32_t>(dafs::wire::kProcedures[i].number) == number) {
      return static_cast<char>(i);
    }
  }
  return 0;
}

void WriteVector(const std::filesystem::path& out, const std::string& file, const Json& vector,
                 size_t index) {
  const std::string name = file + "-" + std::to_string(index);
  std::string bytes = FromHex(vector.at("hex").get<std::string>());
  if (file == "direct") {
    const std::string item = vector.at("item").get<std::string>();
    const int kind = item == "file attributes" ? 0 : item == "utf8string" ? 2 : 1;
    const int order = vector.at("byte_order") == "big" ? 1 : 0;
    Write(out, "fuzz_direct", name, static_cast<char>(kind * 2 + order) + bytes);
    if (kind == 0) {  // the same as attributes after a result: at 16, with a promise
      std::string part(16, '\0');
      part[order == 1 ? 3 : 0] = 16;
      part[order == 1 ? 6 : 5] = 2;
      Write(out, "fuzz_direct", name + "-after", static_cast<char>(3 * 2 + order) + part + bytes);
    }
    return;
  }
  Write(out, "fuzz_header", name, bytes);
  if (vector.at("kind") == "request") {
    Write(out, "fuzz_request", name, bytes);
    if (vector.at("byte_order") == "little" && bytes.size() >= 40) {
      // The head that fuzz_server reads: no chain, stream 0, the file "f" and the export.
      std::string body = bytes.substr(40, 510);
      const std::string head = {RowOf(vector.at("procedure").get<uint32_t>()),
                                0,
                                0,
                                1,
                                5,
                                static_cast<char>(body.size() / 2)};
      Write(out, "fuzz_server", name, head + body);
    }
  } else if (bytes.size() >= 40) {
    bytes[36] = RowOf(vector.at("procedure").get<uint32_t>());
    bytes[37] = static_cast<char>(vector.value("claim_type", 0));
    Write(out, "fuzz_response", name, bytes);
  }
}

// Sequences of calls, which no vector has: random bytes, the same ones each time. A fuzzer that
// begins with nothing takes long to come to sequences.
void WriteCalls(const std::filesystem::path& out) {
  std::mt19937 random(1);  // NOLINT(bugprone-random-generator-seed): so that runs compare
  for (int n = 0; n < 100; ++n) {
    std::string bytes(size_t{64} << n % 5, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    Write(out, "fuzz_c_api", "calls-" + std::to_string(n), bytes);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: fuzz_seeds VECTORS OUT\n");
    return 2;
  }
  size_t written = 0;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1])) {
    const std::string file = entry.path().stem().string();
    if (entry.path().extension() != ".json" || file == "checksum") continue;
    std::ifstream in(entry.path());
    const Json file_json = Json::parse(in);
    if (!file_json.contains("cases")) continue;  // iwarp.json has no messages
    for (const Json& vector : file_json.at("cases")) {
      WriteVector(argv[2], file, vector, written++);
    }
  }
  WriteCalls(argv[2]);
  std::printf("%zu seeds\n", written);
  return written > 0 ? 0 : 1;
}
