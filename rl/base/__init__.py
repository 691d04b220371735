"""The ground that everything stands on: errors, records, files, names, locks, logs.

Imports: nothing."""
