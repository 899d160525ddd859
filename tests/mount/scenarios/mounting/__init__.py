"""Mounts as such: how they begin and end, and their options."""
