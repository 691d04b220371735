"""GGUF files, for llama.cpp and what is built on it.

Imports: base, config, lm; torch."""
