"""Tokens after each of some prompts: the likeliest, so that the same model says the same again, or sampled ones.

Shapes: B prompts, P tokens of the longest of them, T tokens of the longest answer.

Draws a token a row from a model's scores, by one random number each.

The distribution is that of transformers' warpers in their order, temperature, ``top_k``, ``top_p``, and of its multinomial
draw, which takes a random number for each word of the vocabulary and sorts all of it.

Shapes: B rows, V words of the vocabulary, W of them that are looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import torch
from torch import Tensor
from transformers import DynamicCache, LogitsProcessor, LogitsProcessorList, PreTrainedModel, PreTrainedTokenizerBase
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

from rl.lm.chat.answers import answer_form
from rl.lm.keeping_to_schema import KeepToSchema
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
    keeping = [KeepToSchema(tokenizer, schema, _ends(model, tokenizer))] if schema else []
    return _generate(model, tokenizer, prompts, most, logits_processor=LogitsProcessorList(keeping))


@torch.no_grad()
def sample(
    model: PreTrainedModel | torch.nn.Module,
    tokenizer: PreTrainedTokenizerBase,
    prompts: Sequence[Ids],
    most: int,
    temperature: float,
    top_p: float,
    top_k: int = 0,
    **settings: Any,
) -> list[Ids]:
    """The same, drawn by torch's global generator: the caller seeds it. ``settings``: of transformers' generation, in place
    of the model's own."""
    drawing = LogitsProcessorList([Draw(temperature, top_p, top_k)])
    return _generate(model, tokenizer, prompts, most, logits_processor=drawing, **settings)


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
                    answers[number] += _up_to_its_end(row, ends)  # without the padding behind the end
            done, cache = done + added, output.past_key_values
            rows = [row for row, number in enumerate(open_ones) if answers[number][-1:] not in ended]
            if not _drop_others(cache, rows, len(open_ones)):
                rows = list(range(len(open_ones)))
            open_ones = [open_ones[row] for row in rows]
            ids = output.sequences[rows]  # (B, P + T), of those that go on
            mask = torch.nn.functional.pad(mask[rows], (0, ids.shape[1] - mask.shape[1]), value=1)
    return answers


def _drop_others(cache: Any, rows: list[int], of: int) -> bool:
    """Whether keys and values of all rows but these are gone: those of a linear attention, say, cannot go alone."""
    if len(rows) < of:
        if not isinstance(cache, DynamicCache) or any(type(layer) not in _BY_ROWS for layer in cache.layers):
            return not rows
        cache.batch_select_indices(torch.tensor(rows, dtype=torch.long))
    return True


def stop_at(model: Any, ends: Iterable[int]) -> None:
    """Whatever generates with the model ends a turn at these tokens too."""
    model.generation_config.eos_token_id = sorted({*ends, *_declared_ends(model)})


def _ends(model: Any, tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """All tokens that end an answer, as in training."""
    return list({tokenizer.eos_token_id, answer_form(tokenizer).end_id, *_declared_ends(model)} - {None})


def _declared_ends(model: Any) -> set[int]:
    declared = model.generation_config.eos_token_id
    return {*(declared if isinstance(declared, list) else [declared])} - {None}


def _up_to_its_end(ids: Ids, ends: Sequence[int]) -> Ids:
    first = next((position for position, token in enumerate(ids) if token in ends), len(ids))
    return ids[: first + 1]


class Draw(LogitsProcessor):
    """Leaves of the scores (B, V) one in each row, which is then the likeliest. By torch's global generator."""

    def __init__(self, temperature: float, top_p: float, top_k: int) -> None:
        """``top_k``: 0: all words; ``top_p``: 1: all words."""
        self._temperature, self._top_p, self._top_k = temperature, top_p, top_k

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        values, words = keep_likely(scores / self._temperature, self._top_p, self._top_k)
        drawn = draw(values)  # (B, 1)
        if words is not None:
            drawn = words.gather(1, drawn)
        return torch.full_like(scores, _NEVER).scatter_(1, drawn, 0.0)


def draw(scores: Tensor) -> Tensor:
    """(B, 1): of (B, W) the place of one in each row, as likely as its softmax says.

    Raises RuntimeError for scores that are not numbers.
    """
    upto = scores.double().softmax(dim=-1).cumsum(dim=-1)
    total = upto[:, -1:]
    if not torch.isfinite(total).all():
        raise RuntimeError("the scores of the next token are not numbers")
    return torch.searchsorted(upto, torch.rand_like(total) * total, right=True)


def keep_likely(scores: Tensor, top_p: float, top_k: int) -> tuple[Tensor, Tensor | None]:
    """Scores (B, W), minus infinity where they are cut off, and the words that they are of; None: all V in their order."""
    values, words = scores, None
    if 0 < top_k < scores.shape[-1]:
        values, words = _first(scores, top_k)
    if top_p >= 1:
        return values, words
    whole = values.double().logsumexp(dim=-1, keepdim=True)
    if words is None:
        values, words = _share(scores, whole, top_p)
    # a word stays while those before it have less than the share
    of_each = (values.double() - whole).exp()
    return values.masked_fill(of_each.cumsum(dim=-1) - of_each >= top_p, _NEVER), words


def _first(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The largest, from the first on; those that are equal to the last stay too."""
    least = scores.topk(count).values[:, -1:]
    values, words = scores.topk(int((scores >= least).sum(dim=-1).max()))
    return values.masked_fill(values < least, _NEVER), words


def _share(scores: Tensor, whole: Tensor, share: float) -> tuple[Tensor, Tensor]:
    """The largest, from the first on, with at least that share in each row."""
    values, words = scores.topk(min(_FIRST, scores.shape[-1]))
    if bool(((values.double() - whole).exp().sum(dim=-1) <= share).any()):
        values, words = scores.sort(dim=-1, descending=True)
    return values, words
