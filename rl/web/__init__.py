"""What a browser or a client sees: pages, the API, the front before both.

Imports: base, collect, dataset_builder, environments, faults, models, online_learner, operations, runs, scoring,
serving; Django.
"""
