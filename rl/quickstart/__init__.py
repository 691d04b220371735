"""The first run of the whole loop, step by step. Every step looks at what is there already, so a second run is immediate.

Imports: base, config, data_formatter, dataset_builder, demo, export, hardware, models, operations, runs,
serving; Django."""
