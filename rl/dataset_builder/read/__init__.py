"""What there is to learn from: one source a file."""
