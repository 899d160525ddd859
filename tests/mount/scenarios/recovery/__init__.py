"""Failures under a mount that no program notices."""
