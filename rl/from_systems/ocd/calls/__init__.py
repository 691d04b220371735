"""OCD's addresses, and those that take its decisions in."""
