"""The scenarios: every function with the mark of @scenario is a test."""
