"""Command Center: a page that rates dashboard widgets, and thumbs on answers of its production system.

Imports: base, collect, models, serving, web; Django.
"""
