"""Chats as token ids, in which foreign text stays text: ``<|im_end|>`` in a tool's result ends no turn.

A marker is an added token that is special or that the chat template writes. In a copy of the tokenizer every marker has a
secret name. The template is rendered with stand-ins for the markers in foreign text; then the template's own markers get
their secret names, the stand-ins become what they stood for, and the copy reads all of it at once. So foreign text is
tokenised as the text around it asks for, and holds no marker."""

import json
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence

from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerBase

from rl.base.errors import UsageError


class ChatTokens:
    def __init__(self, tokenizer: PreTrainedTokenizerBase, template: str) -> None:
        """Raises UsageError for a tokenizer that is no ``tokenizer.json``."""
        if not tokenizer.is_fast:
            raise UsageError("the tokenizer is too old for agents: it must have a tokenizer.json")
        self._tokenizer = tokenizer
        added = tokenizer.added_tokens_decoder
        self.numbers = {
            token.content: number
            for number, token in added.items()
            if token.special or (token.content.strip() and token.content in template)
        }
        """The markers and their token ids."""
        self._markers = sorted(self.numbers, key=len, reverse=True)
        self._key = "q" + secrets.token_hex(8)
        self._secret = {marker: f"<{self._key}|{number:05}>" for number, marker in enumerate(self._markers)}
        self._marker = any_of(self._markers)
        self._special = any_of(token.content for token in added.values() if token.special)
        self._stand_in = re.compile(self._key + r"(\d{5})z")
        self._reader = _rename_markers(tokenizer, self._secret)
        # the copy numbers added tokens anew where their names are not in the vocabulary
        names = ((self._secret.get(token.content, token.content), number) for number, token in added.items())
        numbers = ((self._reader.token_to_id(name), number) for name, number in names)
        self._originals = {new: old for new, old in numbers if new is not None and new != old}

    def hide(self, text: str, all_markers: bool = True) -> str:
        """``text`` with stand-ins for its markers, or for the special tokens alone, to be rendered by a template."""
        pattern = self._marker if all_markers else self._special
        return pattern.sub(lambda match: f"{self._key}{self._markers.index(match[0]):05}z", text)

    def ids(self, rendered: str) -> list[int]:
        """The token ids of what a template wrote, its stand-ins included."""
        # the template's own markers get their secret names, then stand-ins become the text that they stood for
        named = self._marker.sub(lambda match: self._secret[match[0]], rendered)
        text = self._stand_in.sub(lambda match: self._markers[int(match[1])], named)
        # in the copy only secret names are markers, so foreign text can spell none
        numbers = self._reader.encode(text, add_special_tokens=False).ids
        return [self._originals.get(number, number) for number in numbers] if self._originals else list(numbers)

    def text(self, ids: Sequence[int]) -> str:
        """Its special tokens too."""
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False))

    def markers(self, rendered: str) -> list[str]:
        """The markers in a text, in their order."""
        return self._marker.findall(rendered)


def any_of(texts: Iterable[str]) -> re.Pattern[str]:
    """Finds the longest of the texts at a place; nothing where there are none."""
    longest_first = sorted(texts, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")


def _rename_markers(tokenizer: PreTrainedTokenizerBase, names: Mapping[str, str]) -> Tokenizer:
    document = json.loads(tokenizer.backend_tokenizer.to_str())
    for token in document["added_tokens"]:
        token["content"] = names.get(token["content"], token["content"])
    # the vocabulary may have the markers too, and merges that lead to them
    model = document["model"]
    vocabulary = model["vocab"]
    if isinstance(vocabulary, dict):
        model["vocab"] = {names.get(piece, piece): number for piece, number in vocabulary.items()}
    else:
        model["vocab"] = [[names.get(piece, piece), score] for piece, score in vocabulary]
    if "merges" in model:
        pairs = [(pair, pair.split(" ") if isinstance(pair, str) else pair) for pair in model["merges"]]
        model["merges"] = [pair for pair, parts in pairs if not any(part in names for part in ("".join(parts), *parts))]
    if model.get("unk_token") in names:
        model["unk_token"] = names[model["unk_token"]]
    return Tokenizer.from_str(json.dumps({**document, "post_processor": None, "truncation": None, "padding": None}))
