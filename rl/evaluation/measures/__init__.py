"""What is measured, one file each: preference, fresh answers, picks, reward, success.

Imports: base, config, data_formatter, environments, judge, models.
"""
