"""Peers with no code in common with ours, and peers that are wrong."""
