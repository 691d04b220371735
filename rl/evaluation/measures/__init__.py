"""What is measured, one file each: preference, reward, success.

Imports: base, config, data_formatter, environments.
"""
