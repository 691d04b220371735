"""Chats as text and tokens: the model's template, what a turn is, where an answer and its calls begin and end.

Imports: base, environments; torch."""
