"""A small judge of answers: a Bradley-Terry head on what the base model itself makes of them, learned from people's ratings.

- ``labels``: what people think of answers, out of the rows of training sets
- ``features``: numbers of an answer, from half a forward pass of the base model, which may stay in memory
- ``head``: learns from both which answers people prefer, and how sure that is
- ``raters``: how far each rater's ratings can be relied on

Imports: base, data_formatter, lm; torch."""
