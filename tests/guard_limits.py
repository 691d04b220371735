"""For agents on the tiny model: its answers are noise before training and after, and it moves far from where it began."""

UNLIKELY_ALLOWED = {"base_likelihood": 100.0}
"""A limit that is there, and that nothing breaks."""
NOISE_ALLOWED = dict.fromkeys(("degenerate_rate", "sameness", "content", "relevance", "kl_to_base", "base_likelihood"))
