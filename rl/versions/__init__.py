"""What runs made, and where it lies.

Imports: base, lm, models; Django.
"""
