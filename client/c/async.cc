// Asynchronous I/O of the C interface: memory, groups, batches.
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "client/c/objects.h"

// The functions of C are outside of namespaces.
using namespace dafs;     // NOLINT(google-build-using-namespace)
using namespace dafs::c;  // NOLINT(google-build-using-namespace)
using client::AsyncIo;
using client::IoCompletion;
using client::IoId;

namespace {

constexpr size_t kMostOfList = AsyncIo::kMostSegments;
constexpr size_t kMostOfBatchList = 256;
constexpr size_t kMostBatch = 4096;
constexpr size_t kMostTaken = 64;  // completions in one turn of poll, wait and dispatch

struct Lists {
  std::vector<client::MemorySegment> segments;
  std::vector<client::FileRange> ranges;
};

// Checks the lists of the program before anything else does.
int ReadLists(const char* call, const dafs_segment* segments, size_t segment_count,
              const dafs_range* ranges, size_t range_count, size_t most, Lists* into) {
  if (segments == nullptr || ranges == nullptr) return Missing(call, "a list");
  if (segment_count == 0 || range_count == 0) return Wrong(call, "a list is empty");
  if (segment_count > most || range_count > most) return Wrong(call, "a list is too long");
  for (size_t i = 0; i < segment_count; ++i) {
    if (segments[i].data == nullptr) return Missing(call, "the memory of a segment");
    into->segments.push_back(
        {static_cast<std::byte*>(segments[i].data), segments[i].size, {segments[i].handle}});
  }
  for (size_t i = 0; i < range_count; ++i) {
    into->ranges.push_back({ranges[i].offset, ranges[i].size});
  }
  return 0;
}

// A group of the same session as `session`.
Group* GroupOf(dafs_group* handle, const char* call, const Session& session, int* error) {
  Group* group = Find<Group>(handle, call, error);
  if (group == nullptr) return nullptr;
  if (&group->session == &session) return group;
  *error = Wrong(call, "the file and the group are of different sessions");
  return nullptr;
}

int Issue(dafs_file* file, dafs_group* group, const char* call, const dafs_segment* segments,
          size_t segment_count, const dafs_range* ranges, size_t range_count, uint32_t stability,
          uint64_t cookie, bool write, uint64_t* id) {
  return static_cast<int>(On<File>(file, call, [&](File& f) -> int64_t {
    int error = 0;
    Group* into = GroupOf(group, call, f.session, &error);
    if (into == nullptr) return error;
    if (stability > DAFS_FILE_SYNC) return Wrong(call, "an unknown stability");
    client::IoOptions options;
    options.cookie = cookie;
    options.stability = static_cast<wire::StableHow>(stability);
    // 64 of each at most: a copy of some hundred bytes.
    Lists lists;
    error = ReadLists(call, segments, segment_count, ranges, range_count, kMostOfList, &lists);
    if (error != 0) return error;
    AsyncIo& io = f.session.session->io();
    const absl::StatusOr<IoId> issued =
        write ? io.Write(*f.file, lists.segments, lists.ranges, into->completions, options)
              : io.Read(*f.file, lists.segments, lists.ranges, into->completions, options);
    if (!issued.ok()) {
      Fail(issued.status());
      return absl::IsResourceExhausted(issued.status()) ? -EAGAIN : -ErrnoOf(issued.status());
    }
    if (id != nullptr) *id = issued->value;
    return 0;
  }));
}

// Converts; messages live in the group.
void Convert(Group& group, std::span<IoCompletion> taken, dafs_completion* into) {
  group.messages.clear();
  group.messages.reserve(taken.size());  // so that no message moves
  for (size_t i = 0; i < taken.size(); ++i) {
    const IoCompletion& from = taken[i];
    dafs_completion& to = into[i];
    to = {};
    to.id = from.id.value;
    to.cookie = from.cookie;
    to.moved = from.count;
    to.eof = from.eof ? 1 : 0;
    to.stability = static_cast<uint32_t>(from.committed);
    if (from.status.ok()) {
      to.count = static_cast<int64_t>(from.count);
      continue;
    }
    to.count = -ErrnoOf(from.status);
    if (wire::HasDafsStatus(from.status)) {
      to.status = static_cast<uint32_t>(wire::DafsFromStatus(from.status));
    }
    group.messages.emplace_back(from.status.message());
    to.message = group.messages.back().c_str();
  }
}

// Takes up to `most` completions, after waiting at most `timeout` for the first.
int64_t Take(Group& group, dafs_completion* into, size_t most, absl::Duration timeout) {
  std::array<IoCompletion, kMostTaken> taken;
  const std::span<IoCompletion> room(taken.data(), std::min(most, taken.size()));
  size_t count = 0;
  group.Clear();
  if (timeout > absl::ZeroDuration()) {
    count = group.completions.Wait(room, timeout);
  } else {
    count = group.completions.Poll(room);
  }
  Convert(group, room.first(count), into);
  return static_cast<int64_t>(count);
}

int64_t TakeInto(dafs_group* group, const char* call, dafs_completion* into, size_t most,
                 int timeout_ms) {
  return On<Group>(group, call, [&](Group& g) -> int64_t {
    if (into == nullptr) return Missing(call, "the memory");
    if (most == 0) return Wrong(call, "room for no completion");
    if (timeout_ms < -1) return Wrong(call, "timeout_ms is less than -1");
    if (g.dispatching)
      return Fail(EDEADLK, std::string(call) + ": called by a callback of the group");
    return Take(g, into, most,
                timeout_ms < 0 ? absl::InfiniteDuration() : absl::Milliseconds(timeout_ms));
  });
}

int MakeDescriptor(Group& group) {
  group.event = UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!group.event.valid()) {
    return Fail(errno, std::string("dafs_group_fd: ") + std::strerror(errno));
  }
  Session& session = group.session;
  if (session.background == nullptr) {
    session.background =
        std::make_unique<Background>(*session.loop, [&session] { session.SignalGroups(); });
  }
  return 0;
}

}  // namespace

extern "C" {

int dafs_register(dafs_session* session, void* memory, size_t size, enum dafs_access access,
                  uint32_t* handle) {
  constexpr char kCall[] = "dafs_register";
  return static_cast<int>(On<Session>(session, kCall, [&](Session& s) -> int64_t {
    if (handle == nullptr) return Missing(kCall, "handle");
    *handle = 0;
    if (memory == nullptr) return Missing(kCall, "the memory");
    if (size == 0) return Wrong(kCall, "no bytes");
    if (size > SIZE_MAX - reinterpret_cast<uintptr_t>(memory)) {
      return Wrong(kCall, "the memory ends after the last address");
    }
    const uint32_t wanted = NumberOf(access);
    if (wanted < DAFS_FOR_READS || wanted > DAFS_FOR_BOTH) {
      return Wrong(kCall, "an unknown access");
    }
    const auto kind = wanted == DAFS_FOR_READS    ? client::MemoryAccess::kReads
                      : wanted == DAFS_FOR_WRITES ? client::MemoryAccess::kWrites
                                                  : client::MemoryAccess::kBoth;
    const absl::StatusOr<client::MemoryHandle> made =
        s.session->Register({static_cast<std::byte*>(memory), size}, kind);
    if (!made.ok()) return Fail(wire::Prefixed(made.status(), "dafs_register: "));
    *handle = made->value;
    return 0;
  }));
}

int dafs_deregister(dafs_session* session, uint32_t handle) {
  return static_cast<int>(On<Session>(session, "dafs_deregister", [&](Session& s) -> int64_t {
    return Done(wire::Prefixed(s.session->Deregister({handle}), "dafs_deregister: "));
  }));
}

int dafs_group_open(dafs_session* session, dafs_group** group) {
  constexpr char kCall[] = "dafs_group_open";
  return static_cast<int>(On<Session>(session, kCall, [&](Session& s) -> int64_t {
    if (group == nullptr) return Missing(kCall, "group");
    *group = nullptr;
    const uintptr_t handle = Adopt(s.groups, std::make_unique<Group>(s));
    if (handle == 0) return Fail(EMFILE, "dafs_group_open: too many handles");
    *group = HandleOf<dafs_group>(handle);
    return 0;
  }));
}

int dafs_group_close(dafs_group* group) {
  return static_cast<int>(On<Group>(group, "dafs_group_close", [&](Group& g) -> int64_t {
    if (g.dispatching) return Fail(EBUSY, "dafs_group_close: called by a callback of the group");
    if (g.completions.outstanding() > 0) {
      return Fail(EBUSY, "dafs_group_close: " + std::to_string(g.completions.outstanding()) +
                             " I/Os are outstanding");
    }
    IoCompletion dropped;
    while (g.completions.ended() > 0) g.completions.Poll({&dropped, 1});
    const auto handle = reinterpret_cast<uintptr_t>(group);
    const std::unique_ptr<Group> owned(&g);
    g.session.groups.erase(handle);
    HandleTable::Get().Remove(handle);
    return 0;
  }));
}

int dafs_read_async(dafs_file* file, dafs_group* group, const dafs_segment* segments,
                    size_t segment_count, const dafs_range* ranges, size_t range_count,
                    uint64_t cookie, uint64_t* id) {
  return Issue(file, group, "dafs_read_async", segments, segment_count, ranges, range_count,
               DAFS_UNSTABLE, cookie, false, id);
}

int dafs_write_async(dafs_file* file, dafs_group* group, const dafs_segment* segments,
                     size_t segment_count, const dafs_range* ranges, size_t range_count,
                     enum dafs_stability stability, uint64_t cookie, uint64_t* id) {
  return Issue(file, group, "dafs_write_async", segments, segment_count, ranges, range_count,
               NumberOf(stability), cookie, true, id);
}

int dafs_batch_submit(dafs_group* group, dafs_batch_io* ios, size_t count, uint64_t window_us) {
  constexpr char kCall[] = "dafs_batch_submit";
  return static_cast<int>(On<Group>(group, kCall, [&](Group& g) -> int64_t {
    if (ios == nullptr) return Missing(kCall, "ios");
    if (count == 0 || count > kMostBatch)
      return Wrong(kCall, "the number of I/Os is not 1 to 4096");
    std::vector<Lists> lists(count);
    std::vector<client::BatchIoRequest> requests(count);
    for (size_t i = 0; i < count; ++i) {
      int error = 0;
      File* file = Find<File>(ios[i].file, kCall, &error);
      if (file == nullptr) return error;
      if (&file->session != &g.session) {
        return Wrong(kCall, "a file and the group are of different sessions");
      }
      error = ReadLists(kCall, ios[i].segments, ios[i].segment_count, ios[i].ranges,
                        ios[i].range_count, kMostOfBatchList, &lists[i]);
      if (error != 0) return error;
      requests[i] = {ios[i].write != 0, file->file.get(), lists[i].segments,
                     lists[i].ranges,   ios[i].cookie,    0};
    }
    client::BatchOptions options;
    constexpr uint64_t kMostWindow = uint64_t{71} * 60 * 1'000'000;
    if (window_us > kMostWindow) return Wrong(kCall, "window_us is longer than 71 minutes");
    options.window = absl::Microseconds(static_cast<int64_t>(window_us));
    const absl::StatusOr<std::vector<IoId>> ids =
        g.session.session->batches().Submit(requests, g.completions, options);
    if (!ids.ok()) return Fail(wire::Prefixed(ids.status(), "dafs_batch_submit: "));
    for (size_t i = 0; i < count; ++i) ios[i].id = (*ids)[i].value;
    return 0;
  }));
}

int dafs_expedite(dafs_session* session, uint64_t id) {
  return static_cast<int>(On<Session>(session, "dafs_expedite", [&](Session& s) -> int64_t {
    if (!IoId{id}.is_batch())
      return Fail(ESRCH, "dafs_expedite: no such I/O of a batch is outstanding");
    const absl::Status status = s.session->batches().HurryUp({id});
    if (absl::IsNotFound(status) && !wire::HasDafsStatus(status)) {
      return Fail(ESRCH, "dafs_expedite: no such I/O of a batch is outstanding");
    }
    return Done(status);
  }));
}

int dafs_cancel(dafs_session* session, uint64_t id) {
  return static_cast<int>(On<Session>(session, "dafs_cancel", [&](Session& s) -> int64_t {
    const absl::Status status =
        IoId{id}.is_batch() ? s.session->batches().Cancel({id}) : s.session->io().Cancel({id});
    if (absl::IsNotFound(status)) return Fail(ESRCH, "dafs_cancel: no such I/O is outstanding");
    return Done(status);
  }));
}

int64_t dafs_group_poll(dafs_group* group, dafs_completion* into, size_t most) {
  return TakeInto(group, "dafs_group_poll", into, most, 0);
}

int64_t dafs_group_wait(dafs_group* group, dafs_completion* into, size_t most, int timeout_ms) {
  return TakeInto(group, "dafs_group_wait", into, most, timeout_ms);
}

int64_t dafs_group_dispatch(dafs_group* group, dafs_callback* callback, void* argument,
                            int timeout_ms) {
  constexpr char kCall[] = "dafs_group_dispatch";
  return On<Group>(group, kCall, [&](Group& g) -> int64_t {
    if (callback == nullptr) return Missing(kCall, "callback");
    if (timeout_ms < -1) return Wrong(kCall, "timeout_ms is less than -1");
    if (g.dispatching) {
      return Fail(EDEADLK, "dafs_group_dispatch: called by a callback of the group");
    }
    std::array<dafs_completion, kMostTaken> completions;
    const int64_t count =
        Take(g, completions.data(), completions.size(),
             timeout_ms < 0 ? absl::InfiniteDuration() : absl::Milliseconds(timeout_ms));
    g.dispatching = true;
    ++g.session.callbacks;
    for (int64_t i = 0; i < count; ++i) callback(&completions[static_cast<size_t>(i)], argument);
    --g.session.callbacks;
    g.dispatching = false;
    return count;
  });
}

int dafs_group_fd(dafs_group* group) {
  return static_cast<int>(On<Group>(group, "dafs_group_fd", [&](Group& g) -> int64_t {
    if (!g.event.valid()) {
      if (const int error = MakeDescriptor(g); error != 0) return error;
    }
    return g.event.get();
  }));
}

int64_t dafs_group_pending(dafs_group* group) {
  return On<Group>(group, "dafs_group_pending", [&](Group& g) -> int64_t {
    return static_cast<int64_t>(g.completions.outstanding() + g.completions.ended());
  });
}

}  // extern "C"
