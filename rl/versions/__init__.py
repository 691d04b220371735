"""What runs made, and where it lies.

Imports: base, config, lm, models; Django."""
