"""One file a command: its arguments, one call, one result."""
