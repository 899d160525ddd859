"""The work of an administrator, and the reports for it."""
