"""Files that several mounts use at the same time."""
