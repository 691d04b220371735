"""Chats as text and tokens: the model's template, what a turn is, which tokens are learned from.

Imports: base, environments; torch.
"""
