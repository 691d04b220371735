"""What is measured, one file each: preference, fresh answers, right answers and their fields, reward and success.

Imports: base, config, data_formatter, dataset_builder, environments, judge, models."""
