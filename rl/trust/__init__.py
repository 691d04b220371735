"""What raters did, read from the database: how far they agree, whose feedback is held back, which version people prefer.

- ``reading``: agreement and raters of one queue; versions by the comparisons of their answers
- ``quarantine``: holds back what no person does by hand, until a person decides

Imports: base, collect, config, models, operations, raters; Django."""
