"""Ratchet: every rating makes your model better, and no update makes it worse."""
