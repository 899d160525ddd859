"""The caches of a mount, and what other clients see."""
