"""Who is asked what: queues, the claims of their raters, and what becomes of a decision.

Imports: base, collect, config, demo, models, operations; Django."""
