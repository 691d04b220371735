"""Langfuse: the addresses that its SDKs deliver observations and scores to. Its observations are read like other spans
(``rl.collect.otlp.langfuse``), and its exports like other files (``rl.collect.importers.langfuse_score``).

Imports: base, collect, models, web; Django.
"""
