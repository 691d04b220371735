"""What a browser or a client sees: pages, the API, the front before both.

Imports: base, collect, config, data_formatter, dataset_builder, demo, environments, faults, models, online_learner,
operations, queues, registered, runs, scoring, serving, trust; Django."""
