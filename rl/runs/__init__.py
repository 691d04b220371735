"""What a training run does: it is made, started, watched, measured, and starts again by itself.

Imports: base, collect, config, dataset_builder, environments, evaluation, export, hardware, judge, lm, models,
    operations, registered, scoring, serving, training, versions; Django.
"""
