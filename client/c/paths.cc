// Names, attributes, lists and fencing of the C interface.
#include <algorithm>
#include <cstring>

#include "client/c/objects.h"

namespace dafs::c {

dafs_attributes ToC(const wire::FileAttributes& from) {
  dafs_attributes to = {};
  to.size = sizeof(to);
  const auto take = [&](uint64_t bit, uint32_t valid) {
    if (!from.has(bit)) return false;
    to.valid |= valid;
    return true;
  };
  if (take(wire::kFattrMode, DAFS_ATTR_MODE)) to.mode = from.mode;
  if (take(wire::kFattrObjectSize, DAFS_ATTR_SIZE)) to.file_size = from.object_size;
  if (take(wire::kFattrTimeModify, DAFS_ATTR_MTIME)) {
    to.mtime_seconds = from.time_modify.seconds;
    to.mtime_nanoseconds = from.time_modify.nseconds;
  }
  if (take(wire::kFattrObjectType, DAFS_ATTR_TYPE))
    to.type = static_cast<uint32_t>(from.object_type);
  if (take(wire::kFattrNumLinks, DAFS_ATTR_LINKS)) to.links = from.num_links;
  if (take(wire::kFattrFileId, DAFS_ATTR_FILE_ID)) to.file_id = from.file_id;
  if (take(wire::kFattrChange, DAFS_ATTR_CHANGE)) to.change = from.change;
  return to;
}

}  // namespace dafs::c

// The functions of C are outside of namespaces.
using namespace dafs;     // NOLINT(google-build-using-namespace)
using namespace dafs::c;  // NOLINT(google-build-using-namespace)

namespace {

// Attributes to set or to compare. `sets`: only what can be set.
int AttributesOf(const dafs_attributes* from, const char* call, bool sets,
                 wire::FileAttributes* into) {
  dafs_attributes read;
  int error = 0;
  if (!ReadOptions(from, call, &read, &error)) return error;
  constexpr uint32_t kSet = DAFS_ATTR_MODE | DAFS_ATTR_SIZE | DAFS_ATTR_MTIME;
  constexpr uint32_t kAll = (DAFS_ATTR_CHANGE << 1) - 1;
  if (read.valid == 0) return Wrong(call, "no attribute is valid");
  if ((read.valid & ~(sets ? kSet : kAll)) != 0) {
    return Wrong(call, sets ? "an attribute that cannot be set" : "an unknown attribute");
  }
  if (read.mtime_nanoseconds >= 1'000'000'000) return Wrong(call, "mtime_nanoseconds is too large");
  const auto has = [&](uint32_t bit) { return (read.valid & bit) != 0; };
  const wire::Time mtime{read.mtime_seconds, read.mtime_nanoseconds};
  if (has(DAFS_ATTR_MODE)) into->set(wire::kFattrMode);
  into->mode = read.mode;
  if (has(DAFS_ATTR_SIZE)) into->set(wire::kFattrObjectSize);
  into->object_size = read.file_size;
  if (has(DAFS_ATTR_MTIME)) into->set(sets ? wire::kFattrTimeModifySet : wire::kFattrTimeModify);
  into->time_modify = mtime;
  into->time_modify_set = {mtime, wire::TimeSetHow::kSetToClientTime};
  if (has(DAFS_ATTR_TYPE)) into->set(wire::kFattrObjectType);
  into->object_type = static_cast<wire::ObjectType>(read.type);
  if (has(DAFS_ATTR_LINKS)) into->set(wire::kFattrNumLinks);
  into->num_links = read.links;
  if (has(DAFS_ATTR_FILE_ID)) into->set(wire::kFattrFileId);
  into->file_id = read.file_id;
  if (has(DAFS_ATTR_CHANGE)) into->set(wire::kFattrChange);
  into->change = read.change;
  return 0;
}

// A call of the session with one or two paths.
template <class Body>
int OnPath(dafs_session* session, const char* call, const char* path, const char* other,
           Body body) {
  return static_cast<int>(On<Session>(session, call, [&](Session& s) -> int64_t {
    if (path == nullptr || other == nullptr) return Missing(call, "a path");
    return body(s.session->paths());
  }));
}

int Verify(dafs_session* session, const char* call, const char* path,
           const dafs_attributes* attributes, bool negated) {
  return OnPath(session, call, path, "", [&](client::PathCalls& paths) -> int64_t {
    wire::FileAttributes wanted;
    if (const int error = AttributesOf(attributes, call, false, &wanted); error != 0) return error;
    const absl::StatusOr<bool> same =
        negated ? paths.NVerify(path, wanted) : paths.Verify(path, wanted);
    return same.ok() ? int64_t{*same} : Fail(same.status());
  });
}

int Publish(Session& session, const char* call, std::vector<client::DirectoryEntry> entries,
            dafs_list** list) {
  const uintptr_t handle =
      Adopt(session.lists, std::make_unique<List>(List{session, std::move(entries), 0}));
  if (handle == 0) return Fail(EMFILE, std::string(call) + ": too many handles");
  *list = HandleOf<dafs_list>(handle);
  return 0;
}

}  // namespace

extern "C" {

int dafs_stat(dafs_session* session, const char* path, dafs_attributes* attributes) {
  constexpr char kCall[] = "dafs_stat";
  return OnPath(session, kCall, path, "", [&](client::PathCalls& paths) -> int64_t {
    const auto found = paths.Stat(path);
    if (!found.ok()) return Fail(found.status());
    int error = 0;
    return WriteResult(ToC(*found), kCall, attributes, &error) ? 0 : error;
  });
}

int dafs_set_attributes(dafs_session* session, const char* path,
                        const dafs_attributes* attributes) {
  constexpr char kCall[] = "dafs_set_attributes";
  return OnPath(session, kCall, path, "", [&](client::PathCalls& paths) -> int64_t {
    wire::FileAttributes wanted;
    if (const int error = AttributesOf(attributes, kCall, true, &wanted); error != 0) return error;
    return Done(paths.SetAttributes(path, wanted).status());
  });
}

int dafs_verify(dafs_session* session, const char* path, const dafs_attributes* attributes) {
  return Verify(session, "dafs_verify", path, attributes, false);
}

int dafs_nverify(dafs_session* session, const char* path, const dafs_attributes* attributes) {
  return Verify(session, "dafs_nverify", path, attributes, true);
}

int dafs_mkdir(dafs_session* session, const char* path, uint32_t mode) {
  return OnPath(session, "dafs_mkdir", path, "", [&](client::PathCalls& paths) -> int64_t {
    return Done(paths.MakeDirectory(path, mode));
  });
}

int dafs_remove(dafs_session* session, const char* path) {
  return OnPath(session, "dafs_remove", path, "",
                [&](client::PathCalls& paths) -> int64_t { return Done(paths.Remove(path)); });
}

int dafs_rename(dafs_session* session, const char* from, const char* to) {
  return OnPath(session, "dafs_rename", from, to,
                [&](client::PathCalls& paths) -> int64_t { return Done(paths.Rename(from, to)); });
}

int dafs_link(dafs_session* session, const char* from, const char* to) {
  return OnPath(session, "dafs_link", from, to,
                [&](client::PathCalls& paths) -> int64_t { return Done(paths.Link(from, to)); });
}

int dafs_symlink(dafs_session* session, const char* target, const char* path) {
  return OnPath(session, "dafs_symlink", path, target, [&](client::PathCalls& paths) -> int64_t {
    return Done(paths.MakeSymlink(target, path));
  });
}

int64_t dafs_readlink(dafs_session* session, const char* path, char* into, size_t size) {
  constexpr char kCall[] = "dafs_readlink";
  return On<Session>(session, kCall, [&](Session& s) -> int64_t {
    if (path == nullptr) return Missing(kCall, "path");
    if (into == nullptr) return Missing(kCall, "the memory");
    const absl::StatusOr<std::string> target = s.session->paths().ReadLink(path);
    if (!target.ok()) return Fail(target.status());
    if (size <= target->size()) {
      return Fail(ERANGE, "dafs_readlink: the target needs " + std::to_string(target->size() + 1) +
                              " bytes");
    }
    std::memcpy(into, target->c_str(), target->size() + 1);
    return static_cast<int64_t>(target->size());
  });
}

int dafs_list_open(dafs_session* session, const char* path, dafs_list** list) {
  constexpr char kCall[] = "dafs_list_open";
  return static_cast<int>(On<Session>(session, kCall, [&](Session& s) -> int64_t {
    if (path == nullptr) return Missing(kCall, "path");
    if (list == nullptr) return Missing(kCall, "list");
    *list = nullptr;
    auto entries = s.session->paths().List(path);
    if (!entries.ok()) return Fail(entries.status());
    return Publish(s, kCall, *std::move(entries), list);
  }));
}

int dafs_list_next(dafs_list* list, const char** name, dafs_attributes* attributes) {
  constexpr char kCall[] = "dafs_list_next";
  return static_cast<int>(On<List>(list, kCall, [&](List& l) -> int64_t {
    if (name == nullptr) return Missing(kCall, "name");
    if (l.next == l.entries.size()) return 0;
    const client::DirectoryEntry& entry = l.entries[l.next];
    int error = 0;
    if (attributes != nullptr && !WriteResult(ToC(entry.attributes), kCall, attributes, &error)) {
      return error;
    }
    ++l.next;
    *name = entry.name.c_str();
    return 1;
  }));
}

int dafs_list_close(dafs_list* list) {
  return static_cast<int>(On<List>(list, "dafs_list_close", [&](List& l) -> int64_t {
    const auto handle = reinterpret_cast<uintptr_t>(list);
    const std::unique_ptr<List> owned(&l);
    l.session.lists.erase(handle);
    HandleTable::Get().Remove(handle);
    return 0;
  }));
}

int dafs_fence_get(dafs_session* session, const char* path, dafs_list** list) {
  constexpr char kCall[] = "dafs_fence_get";
  return static_cast<int>(On<Session>(session, kCall, [&](Session& s) -> int64_t {
    if (path == nullptr) return Missing(kCall, "path");
    if (list == nullptr) return Missing(kCall, "list");
    *list = nullptr;
    auto ids = s.session->paths().GetFence(path);
    if (!ids.ok()) return Fail(ids.status());
    std::vector<client::DirectoryEntry> entries;
    for (std::string& id : *ids) entries.push_back({std::move(id), {}});
    return Publish(s, kCall, std::move(entries), list);
  }));
}

int dafs_fence_set(dafs_session* session, const char* path, enum dafs_fence_object object,
                   enum dafs_fence_access access, enum dafs_fence_update update,
                   const char* const* ids, size_t count) {
  constexpr char kCall[] = "dafs_fence_set";
  return OnPath(session, kCall, path, "", [&](client::PathCalls& paths) -> int64_t {
    client::FenceChange change;
    change.object = static_cast<wire::FenceObject>(NumberOf(object));
    change.access = static_cast<wire::FenceAccess>(NumberOf(access));
    change.update = static_cast<wire::FenceUpdate>(NumberOf(update));
    if (!IsKnown(change.object) || !IsKnown(change.access) || !IsKnown(change.update)) {
      return Wrong(kCall, "an unknown object, access or update");
    }
    if (count > 1024) return Wrong(kCall, "more than 1024 ids");
    if (ids == nullptr && count > 0) return Missing(kCall, "ids");
    for (size_t i = 0; i < count; ++i) {
      if (ids[i] == nullptr) return Missing(kCall, "an id");
      change.ids.emplace_back(ids[i]);
      if (change.ids.back().empty() || change.ids.back().size() > 1024) {
        return Wrong(kCall, "an id is empty or longer than 1024 bytes");
      }
    }
    return Done(paths.SetFence(path, change));
  });
}

}  // extern "C"
