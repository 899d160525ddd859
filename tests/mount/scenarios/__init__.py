"""The scenarios, in the order in which they run. Importing a module registers what it holds."""

from . import files, names, mapping, users, programs, mounting, options, hostile, locks, memory, cycles  # noqa: F401
from . import delivery, caching, speed  # noqa: F401
