"""Registering with an Ollama server.

Imports: base, lm."""
