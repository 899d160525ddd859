"""What fails under a mount, and that no program notices."""
