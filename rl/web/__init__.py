"""What a browser or a client sees: pages, the API, the front before both.

Imports: base, collect, dataset_builder, environments, faults, from_systems, models, online_learner, operations, policies,
runs, scoring, serving; Django.
"""
