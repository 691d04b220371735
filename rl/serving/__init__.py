"""Where versions are served: deployments on targets that applications talk to.

Imports: auto_labels, base, collect, config, data_formatter, environments, export, faults, hardware, judge, lm, models,
operations, versions; Django."""
