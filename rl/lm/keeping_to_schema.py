"""Keeps generated tokens to a JSON schema, as the servers do that are given it (rl/serving/gateway/forms.py).

By llguidance, which vLLM uses for that too. White space is as free as in llama.cpp's grammars, so that nothing but white
space cannot go on for ever.

Shapes: B rows, P tokens of the longest prompt, T tokens of the answers so far, V words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np
import torch
from llguidance import LLMatcher, LLTokenizer
from llguidance.hf import from_tokenizer
from torch import Tensor
from transformers import LogitsProcessor, PreTrainedTokenizerBase

from rl.base.errors import UsageError

_HOW: Final[Any] = {"whitespace_pattern": r" |\n{1,2}[ \t]{0,20}", "lenient": True}


class KeepToSchema(LogitsProcessor):
    """Leaves of the scores (B, V) those of tokens with which an answer can go on. For one batch of prompts."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, schema: Mapping[str, Any], ends: Sequence[int]) -> None:
        """``ends``: tokens that end an answer."""
        self._tokenizer, self._schema, self._ends = tokenizer, schema, tuple(ends)
        self._begin: int | None = None
        self._matchers: dict[tuple[int, ...], LLMatcher] = {}
        """By the tokens of an answer so far: rows may leave the batch."""

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        if self._begin is None:
            self._begin = input_ids.shape[1]
            self._matchers = {(): self._matcher(scores.shape[-1])}
        answers = [tuple(ids) for ids in input_ids[:, self._begin :].tolist()]  # (B, T)
        self._matchers = {answer: self._after(answer) for answer in answers}
        allowed = np.stack([self._find_allowed(answer, scores.shape[-1]) for answer in answers])
        return scores.masked_fill(~torch.from_numpy(allowed).to(scores.device), float("-inf"))

    def _matcher(self, words: int) -> LLMatcher:
        """Raises UsageError for a schema of which nothing can be."""
        grammar = LLMatcher.grammar_from_json_schema(dict(self._schema), overrides=_HOW)
        matcher = LLMatcher(_words_of(self._tokenizer, words, self._ends), grammar)
        if error := matcher.get_error():
            raise UsageError(f"no answer can be made that keeps to the agent's schema: {error}")
        return matcher

    def _after(self, answer: tuple[int, ...]) -> LLMatcher:
        if answer in self._matchers:
            return self._matchers[answer]
        matcher = self._matchers[answer[:-1]]
        if matcher.is_stopped():
            return matcher
        following = matcher.deep_copy()
        if not following.consume_token(answer[-1]):
            raise RuntimeError(f"an answer does not keep to its schema: {following.get_error()}")
        return following

    def _find_allowed(self, answer: tuple[int, ...], words: int) -> Any:
        """(V,), true or false: all behind the end of an answer, where the padding is."""
        matcher = self._matchers[answer]
        if matcher.is_stopped():
            has_ended = not set(self._ends).isdisjoint(answer)
            return np.ones(words, dtype=bool) if has_ended else np.isin(np.arange(words), self._ends)
        bits = np.unpackbits(np.frombuffer(matcher.compute_bitmask(), np.uint8), bitorder="little")
        return bits[:words].astype(bool)


@lru_cache(maxsize=2)
def _words_of(tokenizer: PreTrainedTokenizerBase, words: int, ends: tuple[int, ...]) -> LLTokenizer:
    """Takes a second where the vocabulary is large."""
    return from_tokenizer(tokenizer, n_vocab=words, eos_token=list(ends))
