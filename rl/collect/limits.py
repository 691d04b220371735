"""How much a column or an event takes; the checks of the API, of the importers and of the one writer agree on it."""

ROLES = ("system", "user", "assistant", "tool")
MAX_MESSAGES = 1000
MAX_STEPS = 10_000
"""Tool calls, steps of reasoning or tasks of one answer that comes through the API."""
MAX_TAGS, MAX_TAG_LENGTH, MAX_NOTES_LENGTH, MAX_RATER_LENGTH, MAX_METRIC_LENGTH = 20, 60, 4000, 200, 100
MAX_ID_LENGTH = 200
"""Most characters of an external id, a prompt key or a session id."""
MAX_WHOLE_NUMBER = 2**31 - 1
"""The largest number that the database's four-byte columns hold."""
