"""What a mount caches, and what other clients see."""
