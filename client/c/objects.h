// The objects behind the handles of the C interface (client/c/dafs.h), and what each call does
// first and last. Not installed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "client/c/background.h"
#include "client/c/dafs.h"
#include "client/c/errors.h"
#include "client/c/handles.h"
#include "client/library/library.h"
#include "runtime/files/unique_fd.h"
#include "runtime/loop/loop.h"
#include "wire/dat/dat.h"

namespace dafs::c {

struct File;
struct Group;
struct List;

struct Session {
  static constexpr Kind kKind = Kind::kSession;
  const std::thread::id thread = std::this_thread::get_id();
  std::unique_ptr<dat::Provider> tcp;
  std::unique_ptr<client::Library> library;
  std::unique_ptr<Loop> loop;
  std::unique_ptr<client::ExportSession> session;
  // By handle. They end with the session.
  std::set<uintptr_t> files, groups, lists;
  uint32_t callbacks = 0;  // that are running
  uint32_t calls = 0;      // that are running: more than one in a callback
  // Turns the loop between calls; null: no group has a descriptor.
  std::unique_ptr<Background> background;

  Session& owner() { return *this; }
  // Groups with completions get readable descriptors. The caller has the loop.
  void SignalGroups();
};

struct File {
  static constexpr Kind kKind = Kind::kFile;
  Session& session;
  std::unique_ptr<client::IoFile> file;
  Session& owner() { return session; }
};

struct Group {
  static constexpr Kind kKind = Kind::kGroup;
  explicit Group(Session& s) : session(s), completions(*s.loop) {}
  Session& session;
  client::CompletionGroup completions;
  std::vector<std::string> messages;  // of the completions taken last
  bool dispatching = false;
  UniqueFd event;  // an eventfd, if the program wants one
  bool is_signalled = false;
  Session& owner() { return session; }

  void Signal();  // makes the descriptor readable
  void Clear();
};

struct List {
  static constexpr Kind kKind = Kind::kList;
  Session& session;
  std::vector<client::DirectoryEntry> entries;
  size_t next = 0;
  Session& owner() { return session; }
};

// One call of the program: takes the session's loop at the start and releases it at the end.
class Turn {
 public:
  explicit Turn(Session& session) : session_(session) {
    if (session_.calls++ == 0 && session_.background != nullptr) session_.background->Take();
  }
  ~Turn() {
    if (--session_.calls > 0 || session_.background == nullptr) return;
    session_.SignalGroups();
    session_.background->Lend();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  Session& session_;
};

// Finds the object of a handle, for `call`. Null: Fail was called with the reason, and `*error` is
// what to return.
template <class T, class Handle>
T* Find(Handle* handle, const char* call, int* error) {
  T* object =
      static_cast<T*>(HandleTable::Get().Find(T::kKind, reinterpret_cast<uintptr_t>(handle)));
  if (object == nullptr) {
    *error = Fail(EBADF, std::string(call) + ": the handle is closed, or no such handle");
    return nullptr;
  }
  if (object->owner().thread != std::this_thread::get_id()) {
    *error = Fail(EPERM, std::string(call) + ": the session belongs to another thread");
    return nullptr;
  }
  return object;
}

// Runs `body`, so that no exception leaves the library.
template <class Body>
int64_t Guarded(const char* call, Body body) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return Fail(ENOMEM, std::string(call) + ": out of memory");
  } catch (const std::length_error&) {
    return Fail(ENOMEM, std::string(call) + ": out of memory");
  }
}

// A call on an object: body(T&) returns the result.
template <class T, class Handle, class Body>
int64_t On(Handle* handle, const char* call, Body body) {
  return Guarded(call, [&]() -> int64_t {
    int error = 0;
    T* const object = Find<T>(handle, call, &error);
    if (object == nullptr) return error;
    const Turn turn(object->owner());
    return body(*object);
  });
}

inline int Missing(const char* call, const char* what) {
  return Fail(EFAULT, std::string(call) + ": " + what + " is NULL");
}
inline int Wrong(const char* call, std::string_view what) {
  return Fail(EINVAL, std::string(call) + ": " + std::string(what));
}

// The number that a program has passed as an enum of dafs.h. It may be none of the enum's, which
// must not be read as the enum before it is checked.
template <class Enum>
uint32_t NumberOf(const Enum& value) {
  static_assert(sizeof(Enum) == sizeof(uint32_t));
  uint32_t number;
  std::memcpy(&number, &value, sizeof(number));
  return number;
}

inline int Done(const absl::Status& status) { return status.ok() ? 0 : Fail(status); }

// Reads a structure of the program, which may be older (shorter) or newer (longer) than this
// library. False: Fail was called, and `*error` is what to return.
template <class T>
bool ReadOptions(const T* from, const char* call, T* into, int* error) {
  if (from == nullptr) {
    *error = Missing(call, "the structure");
    return false;
  }
  const size_t size = from->size;
  // Every size that a compiler gives is a multiple of the alignment; one that is not would cut a
  // pointer in two.
  if (size <= sizeof(size) || size > 4096 || size % alignof(T) != 0) {
    *error = Wrong(call, "the size of the structure is wrong; use DAFS_INIT");
    return false;
  }
  const auto* bytes = reinterpret_cast<const unsigned char*>(from);
  for (size_t i = sizeof(T); i < size; ++i) {
    if (bytes[i] == 0) continue;
    *error = Fail(E2BIG, std::string(call) + ": an option that this version of libdafs lacks");
    return false;
  }
  *into = T{};
  std::copy_n(bytes, std::min(size, sizeof(T)), reinterpret_cast<unsigned char*>(into));
  return true;
}

// Writes as much as the program has room for; keeps its size.
template <class T>
bool WriteResult(const T& from, const char* call, T* into, int* error) {
  T unused;
  if (!ReadOptions(into, call, &unused, error)) return false;
  const size_t size = into->size;
  std::copy_n(reinterpret_cast<const unsigned char*>(&from), std::min(size, sizeof(T)),
              reinterpret_cast<unsigned char*>(into));
  into->size = size;
  return true;
}

// Registers `object`, which the session then owns. 0: there are too many.
template <class T>
uintptr_t Adopt(std::set<uintptr_t>& set, std::unique_ptr<T> object) {
  const uintptr_t handle = HandleTable::Get().Add(T::kKind, object.get());
  if (handle != 0) {
    set.insert(handle);
    static_cast<void>(object.release());
  }
  return handle;
}

dafs_attributes ToC(const wire::FileAttributes& attributes);

}  // namespace dafs::c
