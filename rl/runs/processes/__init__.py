"""One run in several processes: starting them, following them, joining from other machines.

Imports: base, config, lm, training; Django.
"""
