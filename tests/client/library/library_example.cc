// An example of libdafs: copies a file of an export to another, eight blocks at a time, by RDMA to
// and from one piece of registered memory.
//   dafs_library_example SERVER[:PORT] EXPORT FROM TO
#include <unistd.h>

#include <array>
#include <cstdio>
#include <memory>
#include <vector>

#include "client/library/library.h"
#include "runtime/status_macros.h"
#include "wire/dat/iwarp/iwarp.h"

namespace {

using namespace dafs;
using namespace dafs::client;

constexpr uint32_t kBlock = 256 << 10;
constexpr uint64_t kBlocks = 8;  // in parallel

absl::Status Copy(ExportSession& session, const char* from_path, const char* to_path) {
  FileOptions for_writing;
  for_writing.write = for_writing.create = for_writing.truncate = true;
  ASSIGN_OR_RETURN(std::unique_ptr<IoFile> from, session.OpenFile(from_path));
  ASSIGN_OR_RETURN(std::unique_ptr<IoFile> to, session.OpenFile(to_path, for_writing));

  std::vector<std::byte> memory(kBlocks * kBlock);
  ASSIGN_OR_RETURN(MemoryHandle handle, session.Register(memory, MemoryAccess::kBoth));
  CompletionGroup group(session.loop());
  std::array<uint64_t, kBlocks> offsets = {};
  std::array<bool, kBlocks> writing = {};
  uint64_t next = 0;
  auto read = [&](uint64_t place) -> absl::Status {
    const MemorySegment segment{memory.data() + place * kBlock, kBlock, handle};
    const FileRange range{next, kBlock};
    IoOptions options;
    options.cookie = place;
    offsets[place] = next;
    writing[place] = false;
    next += kBlock;
    return session.io().Read(*from, {&segment, 1}, {&range, 1}, group, options).status();
  };
  for (uint64_t place = 0; place < kBlocks; ++place) RETURN_IF_ERROR(read(place));

  // Each block is read, then written, then read again, until a read reaches the end of the file.
  bool ended = false;
  std::array<IoCompletion, kBlocks> completions;
  while (const size_t count = group.Wait(completions)) {
    for (const IoCompletion& done : std::span(completions).first(count)) {
      RETURN_IF_ERROR(done.status);
      const uint64_t place = done.cookie;
      ended |= done.eof;
      if (!writing[place] && done.count > 0) {
        const MemorySegment segment{memory.data() + place * kBlock,
                                    static_cast<uint32_t>(done.count), handle};
        const FileRange range{offsets[place], segment.size};
        IoOptions options;
        options.cookie = place;
        writing[place] = true;
        RETURN_IF_ERROR(
            session.io().Write(*to, {&segment, 1}, {&range, 1}, group, options).status());
      } else if (!ended) {
        RETURN_IF_ERROR(read(place));
      }
    }
  }
  RETURN_IF_ERROR(session.Commit(*to));  // stable on the server's disk
  RETURN_IF_ERROR(session.CloseFile(*to));
  RETURN_IF_ERROR(session.CloseFile(*from));
  return session.Deregister(handle);
}

absl::Status Run(char** arguments) {
  std::unique_ptr<dat::Provider> tcp = dat::NewIwarpProvider();
  LibraryOptions options;
  options.server = arguments[1];
  options.export_path = arguments[2];
  options.providers = {tcp.get()};
  ASSIGN_OR_RETURN(std::unique_ptr<Library> library, Library::Open(std::move(options)));
  ASSIGN_OR_RETURN(std::unique_ptr<Loop> loop, Loop::Create());
  const Identity user{geteuid(), getegid(), {}};
  ASSIGN_OR_RETURN(std::unique_ptr<ExportSession> session,
                   ExportSession::Open(*library, *loop, user));
  return Copy(*session, arguments[3], arguments[4]);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: %s SERVER[:PORT] EXPORT FROM TO\n", argv[0]);
    return 1;
  }
  const absl::Status status = Run(argv);
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s: %s\n", argv[0], std::string(status.message()).c_str());
  return 1;
}
