"""N3: scored answers, and policies that are numbered by how many of them they learned from.

Imports: base, collect, config, lm, models, runs, scoring, training, versions, web; Django.
"""
