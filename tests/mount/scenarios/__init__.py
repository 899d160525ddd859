"""The scenarios, in the order in which they run. Importing a module registers what it holds."""

from . import files, appends, sharing, ranges, limits, names, mapping, users, programs, mounting  # noqa: F401
from . import options, hostile, locks, memory, cycles, delivery, caching, posix, identities, differences  # noqa: F401
