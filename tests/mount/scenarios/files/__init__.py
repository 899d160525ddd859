"""What programs do with files."""
