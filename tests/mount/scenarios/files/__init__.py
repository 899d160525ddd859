"""Work of programs with files."""
