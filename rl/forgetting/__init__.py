"""Forgetting a person: what they said and wrote is deleted, what learned from it is named, and a receipt says so.

Imports: base, collect, dataset_builder, lm, models, online_learner, operations, serving, versions; Django."""
