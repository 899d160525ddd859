#include "server/store/durable/write_verifier.h"

#include <sys/random.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "runtime/log/log.h"
#include "runtime/status_macros.h"
#include "server/store/system/machine_boot.h"

namespace dafs::server {
namespace {

constexpr uint64_t kMagic = 0x3130666972657677;  // "wverif01" in memory
constexpr size_t kFileBytes = 4096;
constexpr char kIfRemoved[] = "clients write again what was not committed";

}  // namespace

absl::StatusOr<std::unique_ptr<WriteVerifier>> WriteVerifier::Open(const std::string& state_dir,
                                                                   uint32_t instance) {
  const std::string path = state_dir + "/write-verifier";
  absl::StatusOr<MappedFile> file = MappedFile::Open(path, kFileBytes);
  if (file.ok() && reinterpret_cast<const Record*>(file->bytes().data())->magic != kMagic) {
    file = absl::DataLossError(absl::StrCat(path, ": not a write verifier"));
  }
  if (!file.ok()) {
    const bool is_missing = absl::IsNotFound(file.status());
    if (!is_missing && !absl::IsDataLoss(file.status())) {
      return CannotStartWithout(file.status(), kIfRemoved);
    }
    if (instance > 1) {
      LogError(absl::StrCat(is_missing ? path + ": missing" : std::string(file.status().message()),
                            "; created again: ", kIfRemoved));
    }
    unlink(path.c_str());
    file = MappedFile::Create(path, kFileBytes);
    RETURN_IF_ERROR(file.status());
  }
  std::unique_ptr<WriteVerifier> verifier(new WriteVerifier(*std::move(file), instance));
  Record& record = verifier->record();
  if (record.magic == kMagic && record.boot == BootSum()) return verifier;
  record.magic = 0;
  if (getrandom(&record.number, sizeof record.number, 0) != sizeof record.number) {
    return absl::InternalError("getrandom: no random number for the write verifier");
  }
  record.boot = BootSum();
  record.losses = 0;
  record.magic = kMagic;
  // Otherwise a machine crash would leave a file that looks damaged.
  const MappedFile& made = verifier->file_;
  if (!(made.Sync(made.bytes()) && made.SyncName())) {
    LogWarning(
        absl::StrCat(path, ": cannot be written to the device; a loss of power may damage it"));
  }
  return verifier;
}

wire::Verifier WriteVerifier::Of(const FileSystem& fs) const {
  const Record& now = record();
  // Both numbers are small. They are spread far apart, so that a count of losses does not turn one
  // into the other.
  const uint64_t apart = fs.mount_number != 0 ? fs.mount_number << 1 : uint64_t{instance_} << 1 | 1;
  return wire::OpaqueFromUint64<wire::Verifier>(now.number + (apart << 20) +
                                                now.losses.load(std::memory_order_acquire));
}

uint64_t WriteVerifier::era() const {
  return record().number + record().losses.load(std::memory_order_acquire);
}

void WriteVerifier::Change() { record().losses.fetch_add(1, std::memory_order_acq_rel); }

}  // namespace dafs::server
