"""The scenarios, in the order in which they run. Importing a module registers what it holds."""

from . import files, names, mapping, users, programs, mounting, options, hostile, memory, cycles, delivery, caching  # noqa: F401
