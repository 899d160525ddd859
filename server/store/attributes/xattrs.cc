#include "server/store/attributes/xattrs.h"

#include <sys/xattr.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "server/store/system/errno_status.h"
#include "server/store/system/fd_path.h"
#include "server/store/system/identity.h"
#include "wire/protocol/attribute_names.h"
#include "wire/protocol/name_check.h"

namespace dafs::server {
namespace {

using wire::DafsStatus;

constexpr std::string_view kReserved = "trusted.dafs.";
constexpr size_t kListMost = 65536;  // XATTR_LIST_MAX
constexpr size_t kUsualList = 1024;  // one call suffices for most lists, which are empty
constexpr size_t kUsualSize = 256;   // one call suffices for most values
constexpr int kAttempts = 8;         // a value may grow between two calls

bool IsReserved(std::string_view name) { return name.starts_with(kReserved); }

// Converts `given`, a name of the protocol, to the kernel's name. Each attribute has only one name
// in the protocol.
DafsStatus ToKernelName(const std::string& given, std::string* name) {
  *name = wire::XattrOf(given);
  if (name->size() > kXattrNameMost) return DafsStatus::kNameTooLong;
  const bool another = wire::AttributeOf(*name) != given;
  return another || name->find('\0') != std::string::npos ? DafsStatus::kInval : DafsStatus::kOk;
}

DafsStatus StatusOfXattr(int error) {
  switch (error) {
    case ENODATA:
      return DafsStatus::kNoEnt;
    case E2BIG:
      return DafsStatus::kFbig;
    case ERANGE:  // only a name space, without a name
      return DafsStatus::kInval;
    default:
      return StatusFromErrno(error);
  }
}

// While it lives, a thread that acts for root has all capabilities, as root has on a local file
// system, if `name` needs them or is empty (a listing).
class RootsOwn {
 public:
  explicit RootsOwn(std::string_view name) {
    const bool special =
        name.empty() || name.starts_with("trusted.") || name.starts_with("security.");
    if (special && ActsAsRoot()) privilege_.emplace();
  }

 private:
  std::optional<ScopedPrivilege> privilege_;
};

int FlagsOf(XattrMode mode) {
  switch (mode) {
    case XattrMode::kCreate:
      return XATTR_CREATE;
    case XattrMode::kReplace:
      return XATTR_REPLACE;
    default:
      return 0;
  }
}

// `read`: getxattr, or lgetxattr to not follow a link. The first call reads into a buffer on the
// stack, which suffices for most values.
DafsStatus ReadXattr(decltype(getxattr)* read, const char* path, const char* name,
                     std::string* value) {
  value->clear();
  char usual[kUsualSize];
  char* room = usual;
  size_t size = sizeof usual;
  std::string long_value;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    ssize_t n = 0;
    {
      const RootsOwn rights(name);
      n = read(path, name, room, size);
      if (n < 0 && errno == ERANGE) {
        n = read(path, name, nullptr, 0);
        if (n < 0) return StatusOfXattr(errno);  // before ~RootsOwn changes errno
        if (static_cast<size_t>(n) > kXattrMost) return DafsStatus::kFbig;
        size = std::max(static_cast<size_t>(n), size);
        long_value.resize(size);
        room = long_value.data();
        continue;
      }
      if (n < 0) return StatusOfXattr(errno);
    }
    value->assign(room, static_cast<size_t>(n));
    return DafsStatus::kOk;
  }
  return DafsStatus::kIo;  // not DELAY: the client would retry forever
}

}  // namespace

DafsStatus GetXattrSize(const Object& object, const std::string& given, size_t* size) {
  std::string name;
  if (DafsStatus status = ToKernelName(given, &name); status != DafsStatus::kOk) return status;
  if (IsReserved(name)) return DafsStatus::kNoEnt;
  const RootsOwn rights(name);
  const ssize_t n = getxattr(FdPath(object.path_fd()).c_str(), name.c_str(), nullptr, 0);
  if (n < 0) return StatusOfXattr(errno);
  *size = static_cast<size_t>(n);
  return DafsStatus::kOk;
}

DafsStatus GetXattr(const Object& object, const std::string& given, std::string* value) {
  std::string name;
  if (DafsStatus status = ToKernelName(given, &name); status != DafsStatus::kOk) return status;
  if (IsReserved(name)) return DafsStatus::kNoEnt;
  return ReadXattr(getxattr, FdPath(object.path_fd()).c_str(), name.c_str(), value);
}

DafsStatus GetAclXattr(const Object& object, const char* name, std::string* value) {
  return ReadXattr(getxattr, FdPath(object.path_fd()).c_str(), name, value);
}

DafsStatus GetAclXattr(const char* path, const char* name, std::string* value) {
  return ReadXattr(lgetxattr, path, name, value);
}

DafsStatus SetXattr(const Object& object, const std::string& given, std::string_view value,
                    XattrMode mode) {
  std::string name;
  if (DafsStatus status = ToKernelName(given, &name); status != DafsStatus::kOk) return status;
  if (IsReserved(name)) return DafsStatus::kPerm;
  if (value.size() > kXattrMost) return DafsStatus::kFbig;
  const RootsOwn rights(name);
  if (setxattr(FdPath(object.path_fd()).c_str(), name.c_str(), value.data(), value.size(),
               FlagsOf(mode)) != 0) {
    return StatusOfXattr(errno);
  }
  return DafsStatus::kOk;
}

DafsStatus RemoveXattr(const Object& object, const std::string& given) {
  std::string name;
  if (DafsStatus status = ToKernelName(given, &name); status != DafsStatus::kOk) return status;
  if (IsReserved(name)) return DafsStatus::kNoEnt;
  const RootsOwn rights(name);
  if (removexattr(FdPath(object.path_fd()).c_str(), name.c_str()) != 0) {
    return StatusOfXattr(errno);
  }
  return DafsStatus::kOk;
}

DafsStatus ListXattrs(const Object& object, wire::NameRule rule, std::vector<std::string>* names) {
  names->clear();
  char usual[kUsualList];
  std::string long_list;
  char* list = usual;
  ssize_t n = 0;
  {
    const RootsOwn rights("");
    const FdPath path(object.path_fd());
    n = listxattr(path.c_str(), usual, sizeof usual);
    if (n < 0 && errno == ERANGE) {
      long_list.resize(kListMost);
      list = long_list.data();
      n = listxattr(path.c_str(), list, long_list.size());
    }
    if (n < 0) return StatusOfXattr(errno);  // before ~RootsOwn changes errno
  }
  std::string_view left(list, static_cast<size_t>(n));
  while (!left.empty()) {
    const std::string_view name = left.substr(0, left.find('\0'));
    left.remove_prefix(std::min(name.size() + 1, left.size()));
    const std::string_view wire_name = wire::AttributeOf(name);
    if (!IsReserved(name) && wire::IsWireName(wire_name, rule)) names->emplace_back(wire_name);
  }
  return DafsStatus::kOk;
}

bool SupportsXattrs(const Object& object) {
  const bool usual = S_ISREG(object.type()) || S_ISDIR(object.type());
  std::atomic<bool>& known = object.fs().has_xattrs;
  if (usual && known.load(std::memory_order_relaxed)) return true;
  const FdPath path(object.path_fd());
  for (const char* name : {"user.dafs", "trusted.dafs"}) {
    if (getxattr(path.c_str(), name, nullptr, 0) >= 0 || errno != EOPNOTSUPP) {
      if (usual) known.store(true, std::memory_order_relaxed);
      return true;
    }
  }
  return false;
}

}  // namespace dafs::server
