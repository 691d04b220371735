"""Django's SQLite backend, with turns for those who write."""
