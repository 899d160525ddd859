// The end of PERSIST and AUTORECOVERY locks by their owner: LOCKU and CLOSE.
// Spec: 4.4.1.3, 4.4.1.4. Only for the .cc files of this folder. Thread-safe as the Store is.
#pragma once

#include <string>

#include "server/store/objects/object.h"
#include "wire/protocol/lock_ranges.h"
#include "wire/protocol/status.h"
#include "wire/protocol/types.h"

namespace dafs::server {

struct StoreParts;

// Ends the records of what `owner` holds in `range`. Changes there under AUTORECOVERY locks
// are final once they are on the disk. `file` may be null if it is not open. The caller
// holds the file's lock. Blocks on the disk if there are records. DELAY: changes there are being
// undone. Errors of the disk: nothing has ended.
wire::DafsStatus ReleaseRecorded(StoreParts& store, const wire::ClientId& client_id, ObjectRef file,
                                 const ObjectKey& key, const std::string& owner,
                                 const wire::LockRange& range);

}  // namespace dafs::server
