"""Tokens after each of some prompts: the likeliest, so that the same model says the same again, or sampled ones.

Shapes: B prompts, P tokens of the longest of them, T tokens of the longest answer.

Draws a token a row from a model's scores, by one random number each.

The distribution is that of transformers' warpers in their order, temperature, ``top_k``, ``top_p``, and of its multinomial
draw, which takes a random number for each word of the vocabulary and sorts all of it.

Shapes: B rows, V words of the vocabulary, W of them that are looked at."""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np
import torch
from llguidance import LLMatcher, LLTokenizer
from llguidance.hf import from_tokenizer
from torch import Tensor
from transformers import DynamicCache, LogitsProcessor, LogitsProcessorList, PreTrainedModel, PreTrainedTokenizerBase
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

from rl.base.errors import UsageError
from rl.lm.chat.template import answer_form
from rl.lm.packed_layers import packed_layers
from rl.lm.shared_prompts import RoomyLayer, read

Ids = list[int]
_STRETCH: Final = 16
"""Tokens after which answers that have ended leave the pass: it is as slow as the number of those that are in it."""
_BY_ROWS: Final = (DynamicLayer, DynamicSlidingWindowLayer, RoomyLayer)
"""Caches of which each row can go alone."""
_FIRST: Final = 1024
"""Likeliest words among which the share ``top_p`` is looked for before all are sorted."""
_NEVER: Final = float("-inf")


@torch.no_grad()
def likeliest(
    model: PreTrainedModel | torch.nn.Module,
    tokenizer: PreTrainedTokenizerBase,
    prompts: Sequence[Ids],
    most: int,
    schema: Mapping[str, Any] | None = None,
) -> list[Ids]:
    """The likeliest answers, at most ``most`` tokens each, with the end token; the model is in evaluation mode. ``schema``:
    that all of them keep to. Raises UsageError for one that none can keep to."""
    keeping = LogitsProcessorList(_keeping(model, tokenizer, schema))
    return _generate(model, tokenizer, prompts, most, logits_processor=keeping)


@torch.no_grad()
def sample(
    model: PreTrainedModel | torch.nn.Module,
    tokenizer: PreTrainedTokenizerBase,
    prompts: Sequence[Ids],
    most: int,
    temperature: float,
    top_p: float,
    top_k: int = 0,
    schema: Mapping[str, Any] | None = None,
    **settings: Any,
) -> list[Ids]:
    """The same, drawn by torch's global generator: the caller seeds it. ``settings``: of transformers' generation, in place
    of the model's own."""
    drawing = LogitsProcessorList([*_keeping(model, tokenizer, schema), DrawingProcessor(temperature, top_p, top_k)])
    return _generate(model, tokenizer, prompts, most, logits_processor=drawing, **settings)


def _keeping(model: Any, tokenizer: PreTrainedTokenizerBase, schema: Mapping[str, Any] | None) -> list[LogitsProcessor]:
    return [KeepToSchema(tokenizer, schema, _ends(model, tokenizer))] if schema else []


def _generate(
    model: PreTrainedModel | torch.nn.Module,
    tokenizer: PreTrainedTokenizerBase,
    prompts: Sequence[Ids],
    most: int,
    **settings: Any,
) -> list[Ids]:
    """The sampling settings of the model's own generation config are taken back."""
    ends, pad = _ends(model, tokenizer), tokenizer.pad_token_id
    how = {"do_sample": False, "temperature": None, "top_p": None, "top_k": None, **settings}
    answers: list[Ids] = [[] for _ in prompts]
    ended = [[end] for end in ends]
    open_ones, done = list(range(len(prompts))), 0
    with packed_layers(model):
        ids, mask, cache = read(model, prompts, pad)
        while open_ones and done < most:
            added = min(_STRETCH, most - done)
            output = model.generate(  # type: ignore[operator]
                input_ids=ids,
                attention_mask=mask,
                past_key_values=cache,
                max_new_tokens=added,
                eos_token_id=ends,
                pad_token_id=pad,
                return_dict_in_generate=True,
                **how,
            )
            for number, row in zip(open_ones, output.sequences[:, ids.shape[1] :].tolist(), strict=True):
                if answers[number][-1:] not in ended:
                    end = next((position for position, token in enumerate(row) if token in ends), len(row))
                    answers[number] += row[: end + 1]  # without the padding behind the end
            done, cache = done + added, output.past_key_values
            rows = [row for row, number in enumerate(open_ones) if answers[number][-1:] not in ended]
            # keys and values of a linear attention, say, cannot go alone
            can_drop = isinstance(cache, DynamicCache) and all(type(layer) in _BY_ROWS for layer in cache.layers)
            if not can_drop and rows:
                rows = list(range(len(open_ones)))
            elif can_drop and len(rows) < len(open_ones):
                cache.batch_select_indices(torch.tensor(rows, dtype=torch.long))
            open_ones = [open_ones[row] for row in rows]
            ids = output.sequences[rows]  # (B, P + T), of those that go on
            mask = torch.nn.functional.pad(mask[rows], (0, ids.shape[1] - mask.shape[1]), value=1)
    return answers


def stop_at(model: Any, ends: Iterable[int]) -> None:
    """Whatever generates with the model ends a turn at these tokens too."""
    model.generation_config.eos_token_id = sorted({*ends, *_declared_ends(model)})


def _ends(model: Any, tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """All tokens that end an answer, as in training."""
    return list({tokenizer.eos_token_id, answer_form(tokenizer).end_id, *_declared_ends(model)} - {None})


def _declared_ends(model: Any) -> set[int]:
    declared = model.generation_config.eos_token_id
    return {*(declared if isinstance(declared, list) else [declared])} - {None}


class DrawingProcessor(LogitsProcessor):
    """Leaves of the scores (B, V) one in each row, which is then the likeliest. By torch's global generator."""

    def __init__(self, temperature: float, top_p: float, top_k: int) -> None:
        """``top_k``: 0: all words; ``top_p``: 1: all words."""
        self._temperature, self._top_p, self._top_k = temperature, top_p, top_k

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:  # noqa: ARG002  transformers'
        values, words = keep_likely(scores / self._temperature, self._top_p, self._top_k)
        drawn = draw(values)  # (B, 1)
        if words is not None:
            drawn = words.gather(1, drawn)
        return torch.full_like(scores, _NEVER).scatter_(1, drawn, 0.0)


def draw(scores: Tensor) -> Tensor:
    """(B, 1): of (B, W) the place of one in each row, as likely as its softmax says. Raises RuntimeError for scores that
    are not numbers."""
    upto = scores.double().softmax(dim=-1).cumsum(dim=-1)
    total = upto[:, -1:]
    if not torch.isfinite(total).all():
        raise RuntimeError("the scores of the next token are not numbers")
    return torch.searchsorted(upto, torch.rand_like(total) * total, right=True)


def keep_likely(scores: Tensor, top_p: float, top_k: int) -> tuple[Tensor, Tensor | None]:
    """Scores (B, W), minus infinity where they are cut off, and the words that they are of; None: all V in their order."""
    values, words = scores, None
    if 0 < top_k < scores.shape[-1]:
        # the largest, from the first on; those that are equal to the last stay too
        least = scores.topk(top_k).values[:, -1:]
        values, words = scores.topk(int((scores >= least).sum(dim=-1).max()))
        values = values.masked_fill(values < least, _NEVER)
    if top_p >= 1:
        return values, words
    whole = values.double().logsumexp(dim=-1, keepdim=True)
    if words is None:
        # the largest, from the first on, with at least that share in each row
        values, words = scores.topk(min(_FIRST, scores.shape[-1]))
        if bool(((values.double() - whole).exp().sum(dim=-1) <= top_p).any()):
            values, words = scores.sort(dim=-1, descending=True)
    # a word stays while those before it have less than the share
    of_each = (values.double() - whole).exp()
    return values.masked_fill(of_each.cumsum(dim=-1) - of_each >= top_p, _NEVER), words


_HOW: Final[Any] = {"whitespace_pattern": r" |\n{1,2}[ \t]{0,20}", "lenient": True}


class KeepToSchema(LogitsProcessor):
    """Leaves of the scores (B, V) those of tokens with which an answer can go on to keep to a JSON schema, for one batch of
    prompts, as the servers do that are given it (rl/serving/gateway/forms.py). By llguidance, which vLLM uses for that too.
    White space is as free as in llama.cpp's grammars, so that nothing but white space cannot go on for ever. Raises
    UsageError for a schema of which nothing can be."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, schema: Mapping[str, Any], ends: Sequence[int]) -> None:
        """``ends``: tokens that end an answer."""
        self._tokenizer, self._schema, self._ends = tokenizer, schema, tuple(ends)
        self._begin: int | None = None
        self._matchers: dict[tuple[int, ...], LLMatcher] = {}
        """By the tokens of an answer so far: rows may leave the batch."""

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        if self._begin is None:
            self._begin = input_ids.shape[1]
            grammar = LLMatcher.grammar_from_json_schema(dict(self._schema), overrides=_HOW)
            matcher = LLMatcher(_words_of(self._tokenizer, scores.shape[-1], self._ends), grammar)
            if error := matcher.get_error():
                raise UsageError(f"no answer can be made that keeps to the schema: {error}")
            self._matchers = {(): matcher}
        answers = [tuple(ids) for ids in input_ids[:, self._begin :].tolist()]  # (B, T)
        self._matchers = {answer: self._after(answer) for answer in answers}
        allowed = np.stack([self._find_allowed(answer, scores.shape[-1]) for answer in answers])
        return scores.masked_fill(~torch.from_numpy(allowed).to(scores.device), float("-inf"))

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
