"""Prompts before their answers: what they have in common, and one that is asked several times, is read once.

Shapes: B prompts, C tokens that all begin with, P tokens of the longest."""

from collections.abc import Callable, Sequence
from os.path import commonprefix
from typing import Any, Final

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer

from rl.lm import loading

Ids = list[int]
_ROOM: Final = 64
"""Tokens by which a cache grows at a time."""
_WORTH_A_PASS: Final = 32
"""Tokens that a pass of its own must save."""


class RoomyLayer(DynamicLayer):
    """Keys and values of a layer at the beginning of larger tensors, so that a token is added without a copy of the rest."""

    keys: Tensor
    values: Tensor
    _room: tuple[Tensor, Tensor] | None = None

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        # (B, heads, tokens, width of a head) each
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        before = self.get_seq_length()
        after = before + key_states.shape[-2]
        room = self._room[0] if self._room else None
        # not the same where rows were taken out since, which copies them
        is_own = room is not None and self.keys.data_ptr() == room.data_ptr() and len(self.keys) == len(room)
        if room is None or self._room is None or not is_own or after > room.shape[-2]:
            self._room = (self._larger(self.keys, key_states, after), self._larger(self.values, value_states, after))
        keys, values = self._room
        keys[:, :, before:after], values[:, :, before:after] = key_states, value_states
        self.keys, self.values = keys[:, :, :after], values[:, :, :after]
        return self.keys, self.values

    def _larger(self, held: Tensor, like: Tensor, tokens: int) -> Tensor:
        room = like.new_empty(*like.shape[:2], tokens + _ROOM, like.shape[-1])
        if held.numel():
            room[:, :, : held.shape[-2]] = held
        return room


def read(
    model: PreTrainedModel | torch.nn.Module, prompts: Sequence[Ids], pad: int
) -> tuple[Tensor, Tensor, DynamicCache | None]:
    """What generation begins with: ids (B, P); their mask (B, P), 0 at padding, which lies before what is a prompt's own;
    and a cache that holds the first tokens of all rows, all but the last at most, or None, as transformers makes it."""
    cache = _cache_of(model)
    if cache is None:
        return *pad_left(prompts, pad), None
    texts = list(dict.fromkeys(map(tuple, prompts)))
    rows = [texts.index(tuple(prompt)) for prompt in prompts]
    common = len(commonprefix([text[:-1] for text in texts]))
    common *= common * (len(texts) - 1) >= _WORTH_A_PASS
    ids, mask = pad_left(texts, pad, common=common)  # of the texts, which may be fewer than B
    if common:
        _fill(model, cache, ids[:1, :common], mask[:1, :common], pad)
        cache.batch_select_indices(torch.zeros(len(texts), dtype=torch.long))
    saved = sum(len(prompt) - common for prompt in prompts) - sum(len(text) - common for text in texts)
    if saved >= _WORTH_A_PASS and min(map(len, texts)) > max(common, 1):
        _fill(model, cache, ids[:, :-1], mask[:, :-1], pad)
    if cache.get_seq_length() and len(texts) < len(prompts):
        cache.batch_select_indices(torch.tensor(rows))
    return ids[rows], mask[rows], cache


def pad_left(prompts: Sequence[Sequence[int]], pad: int, width: int = 0, common: int = 0) -> tuple[Tensor, Tensor]:
    """Token ids and their mask, (B, P) each, so that every prompt ends where its answer begins; P is ``width`` where that is
    more than the longest. The first ``common`` tokens, which are those of all, stand before the padding."""
    width = max(width, *map(len, prompts))
    ids = [[*prompt[:common], *[pad] * (width - len(prompt)), *prompt[common:]] for prompt in prompts]
    mask = [[1] * common + [0] * (width - len(prompt)) + [1] * (len(prompt) - common) for prompt in prompts]
    return torch.tensor(ids, device=loading.device()), torch.tensor(mask, device=loading.device())


def _cache_of(model: Any) -> DynamicCache | None:
    """An empty one, of a model on a CPU all of whose layers see all tokens before theirs."""
    base = loading.base_within(model)
    supports: Callable[[], bool] = base._supports_default_dynamic_cache
    if base.device.type != "cpu" or not supports():
        return None
    cache = DynamicCache(config=base.config)
    if any(type(layer) is not DynamicLayer for layer in cache.layers):
        return None
    cache.layers = [RoomyLayer() for _ in cache.layers]
    return cache


def _fill(model: Any, cache: DynamicCache, ids: Tensor, mask: Tensor, pad: int) -> None:
    """By the library's own way into each family of models; what it says then is not needed."""
    settings = {"do_sample": False, "temperature": None, "top_p": None, "top_k": None, "pad_token_id": pad}
    model.generate(input_ids=ids, attention_mask=mask, past_key_values=cache, max_new_tokens=1, **settings)
