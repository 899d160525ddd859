"""The scenarios, in the order in which they run. Importing a module registers what it holds."""

from . import files, appends, sharing, ranges, limits, names, mapping, users, xattrs, programs  # noqa: F401
from . import mounting, automount, retrying, control  # noqa: F401
from . import options, hostile, locks, memory, cycles, delivery, caching, posix  # noqa: F401
from . import identities, differences, speed, recovery, devices, loads, listings  # noqa: F401
from . import peer_transport, peer_session, peer_chains, peer_names, peer_attributes, peer_opens  # noqa: F401
from . import peer_data, peer_listings, peer_named, peer_channels, peer_leases, peer_memory, peer_random  # noqa: F401
from . import foreign, uring, behind, killing, stale, recovery_state, recovery_power, recovery_programs  # noqa: F401
from . import recovery_contests, waking, subvolumes, hanging, admission, logs  # noqa: F401
