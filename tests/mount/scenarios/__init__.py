"""The scenarios, in the order in which they run. Importing a module registers what it holds."""

from . import files, appends, sharing, ranges, limits, names, mapping, users, xattrs, programs  # noqa: F401
from . import mounting, options, hostile, locks, memory, cycles, delivery, caching, posix  # noqa: F401
from . import identities, differences, speed, recovery  # noqa: F401
