// The C interface of libdafs (client/c/dafs.h) against a server in this process. An input is a
// sequence of calls, with arguments that a careless program might pass: null pointers, handles that
// are closed, of another kind, of another session or made up, lists and lengths of every size,
// unknown flags, sizes of structures that no version has, paths of every shape. Every call returns
// what dafs.h documents, an error has a text, and the session works afterwards.
//
// Errors that a library cannot detect are left out: memory that is not the program's, strings
// without an end. Memory that the library may fill is allocated in the size that it was given, so
// that ASan sees a byte too many. Needs root. All files are in one directory of /tmp and stay
// small.
#include <dafs.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "runtime/log/log.h"
#include "server/daemon/server.h"
#include "tests/fuzz/fuzz.h"
#include "tests/server/scratch_export.h"
#include "wire/dat/iwarp/iwarp.h"

namespace dafs {
namespace {

constexpr int kMostCalls = 48;               // of one input
constexpr size_t kMemory = size_t{1} << 16;  // of all asynchronous I/O
constexpr size_t kMostSize = 1 << 14;        // of synchronous reads and writes

// DAFS_INIT, without clang's warning about it.
template <class T>
T Sized() {
  T made = {};
  made.size = sizeof(T);
  return made;
}

enum class Kind : uint8_t { kSession, kFile, kGroup, kList };

// A handle that a call has returned. It stays known after its end, so that it is used again.
struct Known {
  Kind kind = Kind::kSession;
  uintptr_t number = 0;
  size_t session = 0;  // its place among all handles
  bool open = true;
};

class Input {
 public:
  explicit Input(std::span<const uint8_t> bytes) : bytes_(bytes) {}
  bool empty() const { return bytes_.empty(); }
  uint8_t Byte() {
    if (bytes_.empty()) return 0;
    const uint8_t byte = bytes_.front();
    bytes_ = bytes_.subspan(1);
    return byte;
  }
  uint64_t Word() {
    uint64_t word = 0;
    for (int i = 0; i < 8; ++i) word = word << 8 | Byte();
    return word;
  }
  // A number near a limit, or a small one, or any.
  uint64_t Number() {
    constexpr std::array<uint64_t, 13> kLimits = {0,
                                                  1,
                                                  4096,
                                                  65536,
                                                  INT32_MAX,
                                                  UINT32_MAX,
                                                  uint64_t{1} << 32,
                                                  DAFS_MOST_BYTES,
                                                  DAFS_MOST_BYTES + 1,
                                                  INT64_MAX - 1,
                                                  INT64_MAX,
                                                  uint64_t{1} << 63,
                                                  UINT64_MAX};
    const uint8_t how = Byte();
    if (how < 128) return how;
    if (how < 240) return kLimits[how % kLimits.size()] - Byte() % 3;
    return Word();
  }
  bool OneOf(int many) { return Byte() % many == 0; }

 private:
  std::span<const uint8_t> bytes_;
};

class Target {
 public:
  Target() {
    FUZZ_CHECK(geteuid() == 0);
    LogToStderr("fuzz_c_api", Severity::kError);
    server::PrepareProcess();
    base_ = server::MakeScratch("fuzz");
    FUZZ_CHECK(!base_.empty());
    server::ServerOptions options = server::ScratchOptions(base_);
    options.pool_threads = 1;
    options.direct_memory_bytes = 8 << 20;
    auto addresses = dat::ResolveHost("127.0.0.1", 0);
    FUZZ_CHECK(addresses.ok());
    options.listen = {{server::Transport::kTcp, addresses->front()}};
    auto server = server::Server::Start(options, {.tcp = provider_.get()});
    FUZZ_CHECK(server.ok());
    server_ = *std::move(server);
    address_ = server_->bound()[0].address.ToString();
    // Set only now, because the files of the state directory are larger.
    signal(SIGXFSZ, SIG_IGN);
    const rlimit small{1 << 20, 1 << 20};
    FUZZ_CHECK(setrlimit(RLIMIT_FSIZE, &small) == 0);
    bystander_ = MustOpenSession();
  }
  ~Target() {
    for (const Known& session : {first_, second_}) {
      if (session.open) dafs_session_close(Of<dafs_session>(session));
    }
    dafs_session_close(bystander_);
    server_.reset();
    std::filesystem::remove_all(base_);
  }

  void Run(std::span<const uint8_t> bytes) {
    Begin();
    Input input(bytes);
    for (int n = 0; n < kMostCalls && !input.empty(); ++n) Call(input);
    End();
  }

 private:
  // ---- Objects ----

  template <class T>
  static T* Of(uintptr_t number) {
    return reinterpret_cast<T*>(number);  // NOLINT(performance-no-int-to-ptr): as the library
  }
  template <class T>
  static T* Of(const Known& known) {
    return Of<T>(known.number);
  }
  dafs_options SessionOptions() const {
    dafs_options options = Sized<dafs_options>();
    options.server = address_.c_str();
    options.export_path = "/data";
    options.transport = "tcp";
    options.fence_id = "fuzz";
    options.timeout_ms = 20'000;
    return options;
  }
  dafs_session* MustOpenSession() const {
    const dafs_options options = SessionOptions();
    dafs_session* session = nullptr;
    FUZZ_CHECK(dafs_session_open(&options, &session) == 0 && session != nullptr);
    return session;
  }

  // Two sessions, which live longer than an input unless it closes them, with a file and a group
  // each. The server's files are the same before each input.
  void Begin() {
    for (const auto& entry : std::filesystem::directory_iterator(base_ + "/export")) {
      std::error_code ignored;
      std::filesystem::remove_all(entry.path(), ignored);
    }
    chmod((base_ + "/export").c_str(), 0777);
    std::ofstream(base_ + "/export/f") << std::string(5000, 'f');
    mkdir((base_ + "/export/d").c_str(), 0777);
    FUZZ_CHECK(symlink("f", (base_ + "/export/l").c_str()) == 0);
    FUZZ_CHECK(mkfifo((base_ + "/export/p").c_str(), 0666) == 0);
    for (Known* session : {&first_, &second_}) {
      if (session->number != 0 && session->open) continue;
      *session = {Kind::kSession, reinterpret_cast<uintptr_t>(MustOpenSession())};
    }
    known_ = {first_, second_};
    known_[1].session = 1;
    memory_ = std::make_unique<char[]>(kMemory);
    for (size_t i = 0; i < 2; ++i) {
      dafs_open_options options = Sized<dafs_open_options>();
      options.flags = DAFS_WRITE;
      dafs_file* file = nullptr;
      FUZZ_CHECK(dafs_open(Of<dafs_session>(known_[i]), "f", &options, &file) == 0);
      Add(Kind::kFile, file, i);
      dafs_group* group = nullptr;
      FUZZ_CHECK(dafs_group_open(Of<dafs_session>(known_[i]), &group) == 0);
      Add(Kind::kGroup, group, i);
      registered_[i] = 0;
      FUZZ_CHECK(dafs_register(Of<dafs_session>(known_[i]), memory_.get(), kMemory, DAFS_FOR_BOTH,
                               &registered_[i]) == 0);
    }
  }

  void End() {
    for (const Kind kind : {Kind::kGroup, Kind::kList, Kind::kFile}) {
      for (Known& each : known_) {
        if (!each.open || each.kind != kind) continue;
        if (kind == Kind::kGroup) Drain(each);
        Close(each);
        FUZZ_CHECK(!each.open);
      }
    }
    for (const auto& [session, handle] : left_) {
      if (known_[session].open) {
        dafs_deregister(Of<dafs_session>(known_[session]), handle);
      }
    }
    left_.clear();
    for (size_t i = 0; i < 2; ++i) {
      if (!known_[i].open) continue;
      const auto* session = &known_[i];
      const int ended = dafs_deregister(Of<dafs_session>(*session), registered_[i]);
      FUZZ_CHECK(ended == 0 || ended == -EINVAL);  // the input has done so
      dafs_attributes attributes = Sized<dafs_attributes>();
      FUZZ_CHECK(dafs_stat(Of<dafs_session>(*session), "", &attributes) == 0);
      FUZZ_CHECK(attributes.type == DAFS_TYPE_DIR);
    }
    first_.open = known_[0].open;
    second_.open = known_[1].open;
    for (size_t i = 2; i < known_.size(); ++i) {
      if (known_[i].open) CloseSession(i);
    }
    dafs_attributes attributes = Sized<dafs_attributes>();
    FUZZ_CHECK(dafs_stat(bystander_, "", &attributes) == 0);
  }

  void Drain(const Known& group) {
    std::array<dafs_completion, 7> taken;
    while (dafs_group_pending(Of<dafs_group>(group)) > 0) {
      const int64_t count =
          dafs_group_wait(Of<dafs_group>(group), taken.data(), taken.size(), 20'000);
      FUZZ_CHECK(count > 0);
      for (int64_t i = 0; i < count; ++i) CheckCompletion(taken[static_cast<size_t>(i)]);
    }
  }

  static void CheckCompletion(const dafs_completion& done) {
    FUZZ_CHECK(done.count < 0 || done.message == nullptr);
    FUZZ_CHECK(done.count >= 0 || (done.message != nullptr && *done.message != '\0'));
    FUZZ_CHECK(done.moved <= kMemory * 64 && done.eof <= 1 && done.stability <= DAFS_FILE_SYNC);
  }

  void Add(Kind kind, const void* handle, size_t session) {
    FUZZ_CHECK(handle != nullptr);
    known_.push_back({kind, reinterpret_cast<uintptr_t>(handle), session});
  }
  void CloseSession(size_t at) {
    FUZZ_CHECK(dafs_session_close(Of<dafs_session>(known_[at])) == 0);
    for (Known& each : known_) each.open = each.open && each.session != at;
    known_[at].open = false;
  }
  void Close(Known& known) {
    switch (known.kind) {
      case Kind::kSession:
        CloseSession(static_cast<size_t>(&known - known_.data()));
        return;
      case Kind::kFile: {
        const int result = dafs_close(Of<dafs_file>(known));
        Checked(result);
        known.open = result == -EBUSY;
        return;
      }
      case Kind::kGroup: {
        const int result = dafs_group_close(Of<dafs_group>(known));
        FUZZ_CHECK(result == 0 || result == -EBUSY);
        known.open = result == -EBUSY;
        return;
      }
      case Kind::kList:
        FUZZ_CHECK(dafs_list_close(Of<dafs_list>(known)) == 0);
        known.open = false;
        return;
    }
  }

  // A handle for an argument of `kind`: usually one that works; else of another kind, closed, NULL
  // or made up. `open`: whether the call must find it.
  Known Pick(Input& input, Kind kind) {
    const uint8_t which = input.Byte();
    Known picked{kind, 0, 0, false};
    if (which < 16) {
      picked.number = which == 0 ? 0 : static_cast<uintptr_t>(input.Word());
      for (const Known& each : known_) {  // made up well
        if (each.number == picked.number) picked = each;
      }
    } else if (which < 32) {
      picked = known_[which % known_.size()];
    } else {
      size_t matches = 0;
      for (const Known& each : known_) matches += each.kind == kind ? 1 : 0;
      if (matches == 0) return picked;
      size_t at = which % matches;
      for (const Known& each : known_) {
        if (each.kind == kind && at-- == 0) picked = each;
      }
    }
    if (picked.kind != kind) picked.open = false;
    return picked;
  }

  // ---- What a call returns ----

  // An error has an errno value that dafs.h or a mount knows, and a text. None of these calls may
  // lose the session, and nothing is wrong with the server.
  static int64_t Checked(int64_t result) {
    if (result >= 0) return result;
    FUZZ_CHECK(result > -4096);
    FUZZ_CHECK(result != -EIO && result != -ENOTCONN && result != -ETIMEDOUT);
    FUZZ_CHECK(*dafs_error() != '\0');
    return result;
  }
  // The same for a call on `object`. `missing`: a required pointer is NULL. `wrong`: an argument
  // must be refused. The handle is looked at first.
  static int64_t Checked(int64_t result, const Known& object, bool missing = false,
                         bool wrong = false) {
    Checked(result);
    if (!object.open) FUZZ_CHECK(result == -EBADF);
    if (!object.open) return result;
    FUZZ_CHECK(result != -EBADF && result != -EPERM);
    if (missing || wrong) FUZZ_CHECK(result < 0);
    if (missing && !wrong) FUZZ_CHECK(result == -EFAULT);
    if (wrong && !missing) FUZZ_CHECK(result == -EINVAL);
    return result;
  }

  // ---- Arguments ----

  // A path in memory of its own size; NULL: nullptr.
  std::unique_ptr<char[]> Path(Input& input) {
    static constexpr std::array<const char*, 16> kPaths = {
        "f", "",   "d",     "l",  "p",    "d/n", "n",        "/",
        ".", "..", "../..", "//", "d//n", "f/n", "d/../f/.", "\xff\xfe\x80"};
    std::string path;
    const uint8_t how = input.Byte();
    if (how < 8) return nullptr;
    if (how < 200) {
      path = kPaths[how % kPaths.size()];
    } else if (how < 220) {  // a long name, in a directory or not
      path = how % 2 == 0 ? "d/" : "";
      path.append(input.Number() % 70'000, 'x');
    } else if (how < 230) {  // many names
      for (uint64_t n = input.Byte(); n > 0; --n) path += how % 2 == 0 ? "d/" : "./";
    } else {
      for (int n = how % 12; n > 0; --n) path += static_cast<char>(input.Byte());
    }
    path = path.c_str();  // ends at the first NUL, as for the library
    auto copy = std::make_unique<char[]>(path.size() + 1);
    std::copy_n(path.c_str(), path.size() + 1, copy.get());
    return copy;
  }

  // A structure of the program, in memory of the size that it claims, if that is possible.
  template <class T>
  struct Claimed {
    std::unique_ptr<unsigned char[]> memory;
    T* get() const { return reinterpret_cast<T*>(memory.get()); }
    bool wrong = false;    // its size is none
    bool unknown = false;  // bytes after the structure are set
  };
  template <class T>
  Claimed<T> Claim(Input& input, const T& from) {
    Claimed<T> to;
    const uint8_t how = input.Byte();
    if (how < 8) return to;  // NULL
    const size_t size = how < 160 ? sizeof(T) : how < 200 ? input.Number() : input.Byte();
    to.wrong = size <= sizeof(size_t) || size > 4096 || size % alignof(T) != 0;
    const size_t room = std::max(sizeof(size_t), to.wrong ? std::min<size_t>(size, 4096) : size);
    to.memory = std::make_unique<unsigned char[]>(room);
    std::memcpy(to.memory.get(), &from, std::min(room, sizeof(T)));
    std::memcpy(to.memory.get(), &size, sizeof(size));
    if (room > sizeof(T) && input.OneOf(2)) {
      to.memory[room - 1] = input.Byte();
      to.unknown = !to.wrong && to.memory[room - 1] != 0;
    }
    return to;
  }

  dafs_attributes Attributes(Input& input) {
    dafs_attributes attributes = Sized<dafs_attributes>();
    attributes.valid = input.OneOf(4) ? static_cast<uint32_t>(input.Number()) : input.Byte() % 8;
    attributes.mode = input.OneOf(4) ? static_cast<uint32_t>(input.Number()) : 0666;
    attributes.file_size = input.OneOf(2) ? input.Number() : input.Byte();
    attributes.mtime_seconds = static_cast<int64_t>(input.Number());
    attributes.mtime_nanoseconds = static_cast<uint32_t>(input.Number());
    attributes.type = input.Byte();
    attributes.change = input.Byte();
    return attributes;
  }

  // An enum of any value, as a C program can pass it.
  template <class Enum>
  __attribute__((no_sanitize("enum"))) static Enum EnumOf(uint64_t number) {
    const auto value = static_cast<uint32_t>(number);
    Enum result;
    static_assert(sizeof(result) == sizeof(value));
    std::memcpy(&result, &value, sizeof(value));
    return result;
  }

  // ---- Calls ----

  void Call(Input& input) {
    switch (input.Byte() % 16) {
      case 0:
        return OpenSession(input);
      case 1:
        return OpenFile(input);
      case 2:
        return CloseOne(input);
      case 3:
        return Transfer(input);
      case 4:
        return ChangeFile(input);
      case 5:
        return ReadNames(input);
      case 6:
        return ChangeNames(input);
      case 7:
        return SetOrVerify(input);
      case 8:
        return List(input);
      case 9:
        return Lock(input);
      case 10:
        return Fence(input);
      case 11:
        return Register(input);
      case 12:
        return Issue(input);
      case 13:
        return Batch(input);
      case 14:
        return Take(input);
      default:
        return FromOtherThread(input);
    }
  }

  void OpenSession(Input& input) {
    dafs_options options = SessionOptions();
    const uint8_t what = input.Byte() % 16;
    const std::string many(1025, 'i');
    bool missing = false;
    switch (what) {
      case 0:
        options.server = nullptr;
        missing = true;
        break;
      case 1:
        options.export_path = nullptr;
        missing = true;
        break;
      case 2:
        options.server = "[";
        break;
      case 3:
        options.server = "127.0.0.1:99999";
        break;
      case 4:
        options.server = "";
        break;
      case 5:
        options.export_path = "/data/../..";
        break;
      case 6:
        options.transport = "udp";
        break;
      case 7:
        options.most_out = 65537;
        break;
      case 8:
        options.client_id = many.c_str();
        break;
      case 9:
        options.fence_id = many.c_str();
        break;
      case 10:
        options.tls_name = "fuzz";
        options.tls_cert = "/nonexistent";  // without its key
        break;
      case 11: {
        static constexpr uint32_t kUser[2] = {0, 0};
        options.user = kUser;
        options.groups = static_cast<uint32_t>(1025 + input.Number() % 4096);
        break;
      }
      case 12:
        options.export_path = many.c_str();
        break;
      case 13:
        options.export_path = "";
        break;
      case 14:
        options.tls_name = "";
        break;
      default:
        break;
    }
    const Claimed<dafs_options> claimed = Claim(input, options);
    dafs_session* session = nullptr;
    dafs_session** into = input.OneOf(16) ? nullptr : &session;
    const int result = dafs_session_open(claimed.get(), into);
    if (result == 0) {  // an older program may leave out what was wrong
      FUZZ_CHECK(into != nullptr && claimed.get() != nullptr && !missing && !claimed.wrong);
      known_.push_back({Kind::kSession, reinterpret_cast<uintptr_t>(session), known_.size(), true});
      if (known_.size() > 24) CloseSession(known_.size() - 1);
      return;
    }
    FUZZ_CHECK(result < 0 && session == nullptr && *dafs_error() != '\0');
    FUZZ_CHECK(result != -EIO && result != -ETIMEDOUT && result != -EBADF);
    if (into == nullptr || claimed.get() == nullptr) FUZZ_CHECK(result == -EFAULT);
    if (into != nullptr && claimed.wrong) FUZZ_CHECK(result == -EINVAL);
    if (into != nullptr && claimed.unknown) FUZZ_CHECK(result == -E2BIG);
  }

  void OpenFile(Input& input) {
    const Known session = Pick(input, Kind::kSession);
    const auto path = Path(input);
    dafs_open_options options = Sized<dafs_open_options>();
    options.flags = input.OneOf(8) ? static_cast<uint32_t>(input.Number()) : input.Byte();
    options.mode = input.OneOf(4) ? static_cast<uint32_t>(input.Number()) : 0666;
    options.share_key = input.Byte();
    options.pattern = input.OneOf(8) ? static_cast<uint32_t>(input.Number()) : 0;
    const Claimed<dafs_open_options> claimed = Claim(input, options);
    dafs_file* file = nullptr;
    dafs_file** into = input.OneOf(16) ? nullptr : &file;
    const int result = dafs_open(Of<dafs_session>(session), path.get(), claimed.get(), into);
    const bool missing = path == nullptr || into == nullptr;
    const bool wrong = claimed.wrong || (claimed.get() != nullptr && !claimed.unknown &&
                                         claimed.get()->size == sizeof(options) &&
                                         ((options.flags >> 9) != 0 || options.pattern > 4));
    Checked(result, session, missing, wrong);
    if (session.open && !missing && claimed.unknown) FUZZ_CHECK(result == -E2BIG);
    FUZZ_CHECK((result == 0) == (file != nullptr));
    if (result == 0) Add(Kind::kFile, file, session.session);
  }

  void CloseOne(Input& input) {
    const auto kind = static_cast<Kind>(input.Byte() % 4);
    const Known known = Pick(input, kind);
    if (known.open && kind == Kind::kSession && !input.OneOf(8)) return;  // or little works
    if (known.open) {
      for (Known& each : known_) {
        if (each.number == known.number && each.open) return Close(each);
      }
    }
    int result = 0;
    switch (kind) {
      case Kind::kSession:
        result = dafs_session_close(Of<dafs_session>(known));
        break;
      case Kind::kFile:
        result = dafs_close(Of<dafs_file>(known));
        break;
      case Kind::kGroup:
        result = dafs_group_close(Of<dafs_group>(known));
        break;
      case Kind::kList:
        result = dafs_list_close(Of<dafs_list>(known));
        break;
    }
    Checked(result, known);
  }

  void Transfer(Input& input) {
    const Known file = Pick(input, Kind::kFile);
    const int what = input.Byte() % 3;
    size_t size = input.Number();
    // More than there is memory for is passed only if it must be refused before it is read.
    if (size <= DAFS_MOST_BYTES) size %= kMostSize;
    const bool huge = size > DAFS_MOST_BYTES;
    auto memory = std::make_unique<char[]>(huge ? 1 : size);
    char* const at = input.OneOf(8) ? nullptr : memory.get();
    const uint64_t offset = input.Number();
    const bool missing = at == nullptr && size > 0 && !huge;
    if (what == 0) {
      const int64_t count = dafs_read(Of<dafs_file>(file), at, size, offset);
      Checked(count, file, missing, huge);
      FUZZ_CHECK(count <= static_cast<int64_t>(kMostSize));
    } else if (what == 1) {
      const int64_t count = dafs_write(Of<dafs_file>(file), at, size, offset);
      Checked(count, file, missing, huge);
      FUZZ_CHECK(count < 0 || static_cast<size_t>(count) == size);
    } else {
      const int64_t end = dafs_append(Of<dafs_file>(file), at, size);
      Checked(end, file, missing);
      if (file.open && huge) FUZZ_CHECK(end == -EFBIG);
    }
  }

  void ChangeFile(Input& input) {
    const Known file = Pick(input, Kind::kFile);
    switch (input.Byte() % 4) {
      case 0:
        Checked(dafs_truncate(Of<dafs_file>(file), input.Number()), file);
        break;
      case 1:
        Checked(dafs_commit(Of<dafs_file>(file)), file);
        break;
      case 2: {
        const uint64_t offset = input.Number();
        const auto size = static_cast<uint32_t>(input.Number());
        const auto pattern = static_cast<uint32_t>(input.Number());
        Checked(dafs_hint(Of<dafs_file>(file), offset, size, EnumOf<dafs_pattern>(pattern)), file,
                false, pattern > DAFS_DONT_NEED);
        break;
      }
      default: {
        const Claimed<dafs_attributes> into = Claim(input, dafs_attributes{});
        const int result = dafs_fstat(Of<dafs_file>(file), into.get());
        CheckFilled(result, file, into);
      }
    }
  }

  // A call that fills in a structure.
  template <class T>
  static void CheckFilled(int64_t result, const Known& object, const Claimed<T>& into,
                          bool missing = false) {
    Checked(result, object, missing);
    if (!object.open || missing ||
        (result < 0 && result != -EFAULT && result != -EINVAL && result != -E2BIG)) {
      return;
    }
    if (into.get() == nullptr) FUZZ_CHECK(result < 0);
    if (into.wrong || into.unknown) FUZZ_CHECK(result < 0);
  }

  void ReadNames(Input& input) {
    const Known session = Pick(input, Kind::kSession);
    const auto path = Path(input);
    if (input.OneOf(2)) {
      const Claimed<dafs_attributes> into = Claim(input, dafs_attributes{});
      const int result = dafs_stat(Of<dafs_session>(session), path.get(), into.get());
      CheckFilled(result, session, into, path == nullptr);
      return;
    }
    const size_t size = input.Byte() % 8;
    auto memory = std::make_unique<char[]>(size);
    char* const into = input.OneOf(8) ? nullptr : memory.get();
    const int64_t length = dafs_readlink(Of<dafs_session>(session), path.get(), into, size);
    Checked(length, session, path == nullptr || into == nullptr);
    FUZZ_CHECK(length < static_cast<int64_t>(size) || length < 0);
    if (length >= 0) FUZZ_CHECK(into[length] == '\0');
  }

  void ChangeNames(Input& input) {
    const Known session = Pick(input, Kind::kSession);
    auto* const s = Of<dafs_session>(session);
    const auto from = Path(input);
    const auto to = Path(input);
    const int what = input.Byte() % 5;
    if (what == 0) {
      Checked(dafs_mkdir(s, from.get(), static_cast<uint32_t>(input.Number())), session,
              from == nullptr);
    } else if (what == 1) {
      Checked(dafs_remove(s, from.get()), session, from == nullptr);
    } else {
      const bool missing = from == nullptr || to == nullptr;
      Checked(what == 2   ? dafs_rename(s, from.get(), to.get())
              : what == 3 ? dafs_link(s, from.get(), to.get())
                          : dafs_symlink(s, from.get(), to.get()),
              session, missing);
    }
  }

  void SetOrVerify(Input& input) {
    const Known session = Pick(input, Kind::kSession);
    auto* const s = Of<dafs_session>(session);
    const auto path = Path(input);
    const dafs_attributes from = Attributes(input);
    const Claimed<dafs_attributes> wanted = Claim(input, from);
    const int what = input.Byte() % 3;
    const int result = what == 0   ? dafs_set_attributes(s, path.get(), wanted.get())
                       : what == 1 ? dafs_verify(s, path.get(), wanted.get())
                                   : dafs_nverify(s, path.get(), wanted.get());
    const bool missing = path == nullptr || wanted.get() == nullptr;
    const bool is_whole = !wanted.wrong && !wanted.unknown && wanted.get() != nullptr &&
                          wanted.get()->size >= sizeof(from);
    const uint32_t known = what == 0 ? 7 : 127;
    Checked(result, session, missing,
            wanted.wrong || (is_whole && (from.valid == 0 || (from.valid & ~known) != 0 ||
                                          from.mtime_nanoseconds >= 1'000'000'000)));
    FUZZ_CHECK(result <= (what == 0 ? 0 : 1));
    if (session.open && !missing && wanted.unknown) FUZZ_CHECK(result == -E2BIG);
  }

  void List(Input& input) {
    if (input.OneOf(2)) {
      const Known session = Pick(input, Kind::kSession);
      const auto path = Path(input);
      dafs_list* list = nullptr;
      dafs_list** into = input.OneOf(16) ? nullptr : &list;
      const bool fence = input.OneOf(4);
      const int result = fence ? dafs_fence_get(Of<dafs_session>(session), path.get(), into)
                               : dafs_list_open(Of<dafs_session>(session), path.get(), into);
      Checked(result, session, path == nullptr || into == nullptr);
      FUZZ_CHECK((result == 0) == (list != nullptr));
      if (result == 0) Add(Kind::kList, list, session.session);
      return;
    }
    const Known list = Pick(input, Kind::kList);
    const char* name = nullptr;
    const char** into = input.OneOf(8) ? nullptr : &name;
    const Claimed<dafs_attributes> attributes = Claim(input, dafs_attributes{});
    const int result = dafs_list_next(Of<dafs_list>(list), into, attributes.get());
    Checked(result, list, into == nullptr);
    FUZZ_CHECK(result <= 1);
    FUZZ_CHECK((result == 1) == (name != nullptr && *name != '\0'));
  }

  void Lock(Input& input) {
    const Known file = Pick(input, Kind::kFile);
    auto* const f = Of<dafs_file>(file);
    dafs_range_lock lock = Sized<dafs_range_lock>();
    lock.flags = input.OneOf(8) ? static_cast<uint32_t>(input.Number()) : input.Byte() % 16;
    constexpr std::array<int32_t, 5> kWaits = {0, 0, 1, -2, INT32_MIN};
    lock.wait_ms = kWaits[input.Byte() % kWaits.size()];
    lock.offset = input.Number();
    lock.length = input.Number();
    const int what = input.Byte() % 4;
    if (what == 3) {
      Checked(dafs_unlock(f, lock.offset, lock.length), file);
      return;
    }
    const Claimed<dafs_range_lock> claimed = Claim(input, lock);
    const int result = what == 0   ? dafs_lock(f, claimed.get())
                       : what == 1 ? dafs_lock_test(f, claimed.get())
                                   : dafs_abort(f, claimed.get());
    const bool is_whole = !claimed.wrong && !claimed.unknown && claimed.get() != nullptr &&
                          claimed.get()->size == sizeof(lock);
    Checked(result, file, claimed.get() == nullptr,
            claimed.wrong || (is_whole && ((lock.flags >> 4) != 0 || lock.wait_ms < -1)));
    FUZZ_CHECK(result <= (what == 1 ? 1 : 0));
    if (file.open && claimed.unknown) FUZZ_CHECK(result == -E2BIG);
  }

  // Valid lists keep the id of these sessions, so that no input locks out the next.
  void Fence(Input& input) {
    const Known session = Pick(input, Kind::kSession);
    const auto path = Path(input);
    const uint32_t object = input.OneOf(4) ? static_cast<uint32_t>(input.Number()) : 1;
    const uint32_t access = input.OneOf(4) ? static_cast<uint32_t>(input.Number()) : 1;
    const uint32_t update = input.OneOf(4) ? static_cast<uint32_t>(input.Number()) : 1;
    if (object == DAFS_FENCE_FILESYSTEM || update == DAFS_FENCE_REMOVE) return;
    const std::string longest(1025, 'i');
    const std::array<const char*, 3> ids = {"fuzz", "other",
                                            input.OneOf(4)   ? nullptr
                                            : input.OneOf(4) ? longest.c_str()
                                                             : ""};
    const size_t count = input.OneOf(4) ? input.Number() : 1 + input.Byte() % 3;
    const char* const* list = input.OneOf(8) ? nullptr : ids.data();
    if (list != nullptr && count > ids.size() && count <= 1024) return;  // not the program's memory
    if (count == 0) return;
    const bool unknown = object - 1 > 1 || access - 1 > 1 || update - 1 > 2;
    const int result = dafs_fence_set(
        Of<dafs_session>(session), path.get(), EnumOf<dafs_fence_object>(object),
        EnumOf<dafs_fence_access>(access), EnumOf<dafs_fence_update>(update), list, count);
    Checked(result, session);
    if (!session.open) return;
    if (path == nullptr) FUZZ_CHECK(result == -EFAULT);
    if (path != nullptr && (unknown || count > 1024)) FUZZ_CHECK(result == -EINVAL);
    if (path != nullptr && !unknown && count <= 1024 && list == nullptr) {
      FUZZ_CHECK(result == -EFAULT);
    }
    if (count == 3) FUZZ_CHECK(result < 0);
  }

  void Register(Input& input) {
    const Known session = Pick(input, Kind::kSession);
    auto* const s = Of<dafs_session>(session);
    if (input.OneOf(4)) {
      const auto handle = static_cast<uint32_t>(input.Number());
      const int result = dafs_deregister(s, handle);
      Checked(result, session);
      FUZZ_CHECK(result == 0 || result == -EBADF || result == -EBUSY || result == -EINVAL);
      return;
    }
    size_t size = input.Number();
    void* memory = memory_.get();
    if (input.OneOf(8)) memory = nullptr;
    if (size > kMemory && memory != nullptr &&
        size <= SIZE_MAX - reinterpret_cast<uintptr_t>(memory)) {
      size = kMemory;  // the rest is not the program's
    }
    const uint32_t access = input.OneOf(4) ? static_cast<uint32_t>(input.Number()) : 3;
    uint32_t handle = 0;
    uint32_t* into = input.OneOf(8) ? nullptr : &handle;
    const int result = dafs_register(s, memory, size, EnumOf<dafs_access>(access), into);
    const bool missing = into == nullptr || memory == nullptr;
    Checked(result, session, missing, !missing && (size == 0 || size > kMemory || access - 1 > 2));
    FUZZ_CHECK((result == 0) == (handle != 0));
    if (result == 0) left_.emplace_back(session.session, handle);
  }

  // Segments and ranges of an I/O. Memory that is not registered must be the program's.
  struct Lists {
    std::unique_ptr<dafs_segment[]> segments;
    std::unique_ptr<dafs_range[]> ranges;
    size_t segment_count = 0, range_count = 0;
    bool missing = false, wrong = false;
  };
  size_t CountOf(Input& input, size_t most, size_t* made) {
    const uint64_t count = input.OneOf(4) ? input.Number() : 1 + input.Byte() % 3;
    *made = std::min<uint64_t>(count, most + 1);  // a longer list must be refused unread
    return static_cast<size_t>(count);
  }
  Lists MakeLists(Input& input, size_t most, uint32_t registered) {
    Lists lists;
    size_t segments = 0;
    size_t ranges = 0;
    lists.segment_count = CountOf(input, most, &segments);
    lists.range_count = CountOf(input, most, &ranges);
    if (!input.OneOf(16)) lists.segments = std::make_unique<dafs_segment[]>(segments);
    if (!input.OneOf(16)) lists.ranges = std::make_unique<dafs_range[]>(ranges);
    lists.missing = lists.segments == nullptr || lists.ranges == nullptr;
    lists.wrong = lists.segment_count - 1 >= most || lists.range_count - 1 >= most;
    if (lists.missing) return lists;
    uint64_t total = 0;
    for (size_t i = 0; i < segments; ++i) {
      dafs_segment& each = lists.segments[i];
      const uint32_t offset = input.Byte() * 16u;
      each = {memory_.get() + offset, input.Byte() * 64u, 0};
      if (input.OneOf(2)) each.handle = registered;
      if (each.handle != 0 && input.OneOf(16)) {  // outside of it
        each.size = static_cast<uint32_t>(input.Number());
        each.data = memory_.get() + input.Byte() * 512u;
      }
      if (input.OneOf(32)) each.handle = static_cast<uint32_t>(input.Number() | 1u << 31);
      if (input.OneOf(32)) each.data = nullptr;
      lists.missing = lists.missing || each.data == nullptr;
      total += each.size;
    }
    for (size_t i = 0; i < ranges; ++i) {
      dafs_range& each = lists.ranges[i];
      each.offset = input.OneOf(8) ? input.Number() : input.Byte();
      // Usually the same total; often all in the last range.
      const bool last = i + 1 == ranges;
      each.size = static_cast<uint32_t>(last ? total : std::min<uint64_t>(total, input.Byte()));
      if (input.OneOf(32)) each.size = static_cast<uint32_t>(input.Number());
      total -= std::min<uint64_t>(total, each.size);
    }
    return lists;
  }

  void Issue(Input& input) {
    const Known file = Pick(input, Kind::kFile);
    const Known group = Pick(input, Kind::kGroup);
    const Lists lists = MakeLists(input, 64, registered_[file.session % 2]);
    const bool write = input.OneOf(2);
    const uint32_t stability = input.OneOf(8) ? static_cast<uint32_t>(input.Number()) : 0;
    uint64_t id = 0;
    uint64_t* into = input.OneOf(8) ? nullptr : &id;
    const int result =
        write
            ? dafs_write_async(Of<dafs_file>(file), Of<dafs_group>(group), lists.segments.get(),
                               lists.segment_count, lists.ranges.get(), lists.range_count,
                               EnumOf<dafs_stability>(stability), 5, into)
            : dafs_read_async(Of<dafs_file>(file), Of<dafs_group>(group), lists.segments.get(),
                              lists.segment_count, lists.ranges.get(), lists.range_count, 5, into);
    Checked(result);
    FUZZ_CHECK(result <= 0);
    if (!file.open || !group.open) FUZZ_CHECK(result == -EBADF);
    if (!file.open || !group.open) return;
    FUZZ_CHECK(result != -EBADF);
    if (file.session != group.session || lists.wrong || lists.missing ||
        (write && stability > DAFS_FILE_SYNC)) {
      FUZZ_CHECK(result == -EINVAL || result == -EFAULT);
    }
    if (result != 0 || into == nullptr) return;
    ids_[next_id_++ % ids_.size()] = id;
  }

  void Batch(Input& input) {
    const Known group = Pick(input, Kind::kGroup);
    const uint64_t count = input.OneOf(4) ? input.Number() : 1 + input.Byte() % 3;
    const size_t made = std::min<uint64_t>(count, 8);
    if (count > made && count <= 4096) return;  // not the program's memory
    auto ios = std::make_unique<dafs_batch_io[]>(made);
    std::vector<Lists> lists;
    bool wrong = count - 1 >= 4096;
    bool closed = false;
    for (size_t i = 0; i < made; ++i) {
      const Known file = Pick(input, Kind::kFile);
      lists.push_back(MakeLists(input, 256, registered_[file.session % 2]));
      const Lists& own = lists.back();
      ios[i] = {Of<dafs_file>(file),
                own.segments.get(),
                own.segment_count,
                own.ranges.get(),
                own.range_count,
                7,
                0,
                input.Byte() & 1u,
                0};
      closed = closed || !file.open;
      wrong = wrong || own.wrong || own.missing || file.session != group.session;
    }
    dafs_batch_io* const from = input.OneOf(16) ? nullptr : ios.get();
    const uint64_t window = input.OneOf(2) ? 0 : input.Number();
    // A window of minutes would hold the input's memory as long.
    if (window > 100'000 && window <= uint64_t{71} * 60 * 1'000'000) return;
    wrong = wrong || window > 100'000;
    const int result = dafs_batch_submit(Of<dafs_group>(group), from, count, window);
    Checked(result);
    FUZZ_CHECK(result <= 0);
    if (!group.open) FUZZ_CHECK(result == -EBADF);
    if (!group.open) return;
    if (from == nullptr) FUZZ_CHECK(result == -EFAULT);
    if (wrong || closed) FUZZ_CHECK(result < 0);
    if (result == 0) ids_[next_id_++ % ids_.size()] = ios[0].id;
  }

  static void OnCompletion(const dafs_completion* done, void* argument) {
    CheckCompletion(*done);
    auto* const group = static_cast<dafs_group*>(argument);
    FUZZ_CHECK(dafs_group_close(group) == -EBUSY);
    FUZZ_CHECK(dafs_group_dispatch(group, OnCompletion, argument, 0) == -EDEADLK);
  }

  void Take(Input& input) {
    const Known group = Pick(input, Kind::kGroup);
    auto* const g = Of<dafs_group>(group);
    const int what = input.Byte() % 6;
    if (what == 0) {
      const Known session = Pick(input, Kind::kSession);
      const uint64_t id = input.OneOf(2) ? ids_[input.Byte() % ids_.size()] : input.Word();
      const int result = input.OneOf(2) ? dafs_cancel(Of<dafs_session>(session), id)
                                        : dafs_expedite(Of<dafs_session>(session), id);
      Checked(result, session);
      FUZZ_CHECK(result <= 0);
      return;
    }
    if (what == 1) {
      Checked(dafs_group_fd(g), group);
      return;
    }
    if (what == 2) {
      Checked(dafs_group_pending(g), group);
      return;
    }
    constexpr std::array<int, 6> kTimeouts = {0, 1, 5, -1, -2, INT_MIN};
    const int timeout = kTimeouts[input.Byte() % kTimeouts.size()];
    if (what == 3) {
      dafs_callback* const callback = input.OneOf(8) ? nullptr : OnCompletion;
      Checked(dafs_group_dispatch(g, callback, g, timeout), group, callback == nullptr,
              timeout < -1);
      return;
    }
    const uint64_t most = input.OneOf(4) ? input.Number() : 1 + input.Byte() % 8;
    // As many as one call can take; it may not write more than that at once.
    auto memory = std::make_unique<dafs_completion[]>(std::min<uint64_t>(most, 256));
    dafs_completion* const into = input.OneOf(8) ? nullptr : memory.get();
    const int64_t count =
        what == 4 ? dafs_group_poll(g, into, most) : dafs_group_wait(g, into, most, timeout);
    Checked(count, group, into == nullptr, most == 0 || (what == 5 && timeout < -1));
    FUZZ_CHECK(count < 0 || static_cast<uint64_t>(count) <= most);
    for (int64_t i = 0; i < count; ++i) CheckCompletion(into[i]);
  }

  // Sessions belong to the thread that opened them.
  void FromOtherThread(Input& input) {
    const Known session = Pick(input, Kind::kSession);
    const Known file = Pick(input, Kind::kFile);
    const Known group = Pick(input, Kind::kGroup);
    const Known list = Pick(input, Kind::kList);
    const auto refused = [](const Known& object, int64_t result) {
      FUZZ_CHECK(result == (object.open ? -EPERM : -EBADF));
      FUZZ_CHECK(*dafs_error() != '\0');
    };
    std::thread([&] {
      FUZZ_CHECK(*dafs_error() == '\0');
      refused(session, dafs_session_close(Of<dafs_session>(session)));
      refused(session, dafs_remove(Of<dafs_session>(session), "f"));
      refused(file, dafs_close(Of<dafs_file>(file)));
      refused(file, dafs_write_async(Of<dafs_file>(file), Of<dafs_group>(group), nullptr, 0,
                                     nullptr, 0, DAFS_UNSTABLE, 0, nullptr));
      refused(group, dafs_group_close(Of<dafs_group>(group)));
      refused(group, dafs_group_pending(Of<dafs_group>(group)));
      refused(list, dafs_list_close(Of<dafs_list>(list)));
    }).join();
  }

  std::unique_ptr<dat::Provider> provider_ = dat::NewIwarpProvider();
  std::string base_;
  std::string address_;
  std::unique_ptr<server::Server> server_;
  dafs_session* bystander_ = nullptr;
  Known first_, second_;  // the sessions of the next input
  // Of one input:
  std::vector<Known> known_;
  std::unique_ptr<char[]> memory_;
  std::array<uint32_t, 2> registered_{};
  std::vector<std::pair<size_t, uint32_t>> left_;  // sessions and registrations to end
  std::array<uint64_t, 4> ids_{};
  size_t next_id_ = 0;
};

}  // namespace
}  // namespace dafs

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static auto* target = [] {
    auto* made = new dafs::Target;
    static dafs::Target* to_delete = made;
    std::atexit([] { delete to_delete; });
    return made;
  }();
  target->Run({data, size});
  return 0;
}
