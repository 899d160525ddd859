"""What an administrator does and sees."""
