"""What commands share. One file a command in ``commands``.

Imports: auto_labels, base, checks, collect, config, dataset_builder, demo, doctor, environments, evaluation,
    export, forgetting, from_systems, hardware, lm, models, online_learner, operations, queues, quickstart, registered,
    rewards, runs, sandbox, scoring, serving, versions; Django."""
