"""A judge sees of an answer its words as the base model embeds them, the model's state at its end, its length and its form
(``rl.judge.form``).

The embeddings are averaged over the answer's tokens; the state is that of the answer's last token after half of the layers,
with all of the prompt and the answer before it. Deeper layers cost twice as much and judge no better; figures are in
docs/decisions/judge.md.

Shapes: N answers, B of one forward pass, T tokens of the longest of them, H the width of the model."""

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from rl.base.messages import last_question
from rl.base.records import Message, Report, silent
from rl.judge import form
from rl.judge.labels import Conversation
from rl.lm import loading
from rl.lm.divergence import without_adapter
from rl.lm.encoding import SINGLE, encode
from rl.lm.log_probs import TOKENS_PER_BATCH, PromptAndAnswer, make_passes, pad_sequences
from rl.lm.token_tree.plan import Rows
from rl.lm.token_tree.sharing import shared_tokens, shares_tokens, tree_attention
from rl.lm.trunk import layers_of

Features = np.ndarray
"""float32 (N, 2 H + 1 + WIDTH): mean embedding, state, logarithm of the number of tokens, form."""


class Reader:
    """A base model that stays in memory. Raises UsageError or TrainingFailed for one that cannot be loaded."""

    def __init__(self, base_model: str, *, max_length: int, report: Report, precision: str = "auto") -> None:
        self.tokenizer, self.model = loading.open_model(base_model, report, precision=precision)
        self.max_length = min(max_length, loading.context_length(self.model.config))

    @property
    def width(self) -> int:
        """Numbers of an answer."""
        return _width(self.model)

    def features(self, conversations: Sequence[Conversation], report: Report) -> Features:
        return features_of(self.model, self.tokenizer, conversations, max_length=self.max_length, report=report)


@torch.inference_mode()
def features_of(
    model: Any,
    tokenizer: PreTrainedTokenizerBase,
    conversations: Sequence[Conversation],
    *,
    max_length: int,
    report: Report,
) -> Features:
    """One row for each answer. ``model``: the base model, or one with an adapter, which is left aside. What is longer than
    ``max_length`` tokens loses the beginning of its prompt, then the end of its answer; a chat that the template refuses is
    read with its last question alone."""
    base = loading.base_within(model)
    answers = [Message(role="assistant", content=text) for _, text in conversations]
    rows = [
        {"prompt": [*prompt], "completion": [text]} for (prompt, _), text in zip(conversations, answers, strict=True)
    ]
    report("stage", {"name": "what the judge sees"})
    sequences = []
    # encoding takes no time beside the model: its steps would look like the model's
    for row, ids in zip(rows, encode(tokenizer, rows, len(rows), without(report, "step"), SINGLE), strict=True):
        if "refused" in ids:
            question = Message(role="user", content=last_question(row["prompt"]))
            ids = next(encode(tokenizer, [{**row, "prompt": [question]}], 1, silent, SINGLE))
        prompt, answer = ids["prompt_ids"], ids["completion_ids"][: max(1, max_length - 1)]
        sequences.append((prompt[max(0, len(prompt) + len(answer) - max_length) :], answer))
    features = np.zeros((len(rows), _width(base)), dtype=np.float32)
    for number, (prompt, text) in enumerate(conversations):
        features[number, -form.WIDTH :] = form.form_of(last_question(prompt), text)
    done = 0
    with without_adapter(model), nullcontext() if shares_tokens(base) else shared_tokens(base, report):
        for batch in make_passes(base, sequences, range(len(rows)), TOKENS_PER_BATCH[loading.device().type]):
            features[batch, : -form.WIDTH] = _features_of_batch(base, [sequences[index] for index in batch])
            done += len(batch)
            report("step", {"step": done, "total_steps": len(rows), "metrics": {}})
    return features


def _width(model: PreTrainedModel) -> int:
    return 2 * int(model.config.get_text_config().hidden_size) + 1 + form.WIDTH


def _features_of_batch(model: PreTrainedModel, sequences: Sequence[PromptAndAnswer]) -> np.ndarray:
    """(B, 2 H + 1): all but the form."""
    inputs = pad_sequences(sequences, next(model.parameters()).device)
    answered = (inputs["labels"] != -100)[:, :, None].float()  # (B, T, 1)
    # mean embedding of the answer's tokens: (B, T, H) to (B, H)
    embedded = model.get_input_embeddings()(inputs["input_ids"]).float()
    counts = answered.sum(1)  # (B, 1)
    mean = (embedded * answered).sum(1) / counts.clamp(min=1)
    end = _end_states(model, inputs["input_ids"], inputs["attention_mask"]).float()
    return torch.cat([mean, end, counts.clamp(min=1).log()], dim=1).cpu().numpy()


def _end_states(model: PreTrainedModel, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """(B, H): at the last token of each row, after half of the layers."""
    rows = Rows.of(ids, mask) if shares_tokens(model) else None
    if rows:
        with tree_attention(model):
            return _states_in_the_middle(model, **rows.inputs())[0, rows.ends]
    states = _states_in_the_middle(model, input_ids=ids, attention_mask=mask)
    return states[torch.arange(len(ids)), mask.sum(1) - 1]


class _ReachedError(Exception):
    """The layers above need not run."""


def _states_in_the_middle(model: PreTrainedModel, **inputs: Any) -> torch.Tensor:
    """(B, T, H), after half of the layers."""
    layers = layers_of(model)
    seen: list[torch.Tensor] = []

    def stop(_module: torch.nn.Module, _inputs: Any, output: Any) -> None:
        seen.append(output[0] if isinstance(output, tuple) else output)
        raise _ReachedError

    hook = layers[(len(layers) - 1) // 2].register_forward_hook(stop)
    try:
        model(**inputs, use_cache=False)
    except _ReachedError:
        pass
    finally:
        hook.remove()
    return seen[0]


def without(report: Report, *events: str) -> Report:
    """Reports all but these events."""
    return lambda event, values: report(event, values) if event not in events else None
