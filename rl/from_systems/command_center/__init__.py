"""Command Center: a page that rates dashboard widgets, and thumbs on answers of its production system.

Imports: collect, models, serving, web; Django.
"""
