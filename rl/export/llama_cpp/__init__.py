"""llama.cpp, asked about a file.

Imports: base."""
