"""What could be trained now, and what is missing."""
