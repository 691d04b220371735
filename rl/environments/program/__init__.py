"""Somebody's own program as an episode: it is started once for each task, and speaks to an address of ours as to OpenAI's.

``environment`` has its settings, ``programs`` plays many at once. No Django, no torch."""
