"""Reward models at work: a model, or one with a LoRA adapter, and a head that gives an answer one number.

The number has no unit: a larger one is better, and the sigmoid of the difference of two is how likely people are to
prefer the first. The sigmoid of a single one is the answer's score, from 0 to 1: scored answers train it to be what
people would give, and pairs alone keep the numbers of an agent's answers around 0.

Shapes: B sequences of one forward pass, T tokens of the longest of them, prompt and answer together.
"""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from peft import PeftModel
from torch import Tensor
from transformers import AutoModelForSequenceClassification, PreTrainedModel, PreTrainedTokenizerBase
from trl.trainer.utils import pad

from rl.base.errors import TrainingFailed, UsageError
from rl.base.measurements import PairScore
from rl.base.messages import tools_of
from rl.base.records import AnswerScore, Message, Report, TraceRecord, silent
from rl.lm import loading
from rl.lm.encoding import SINGLE, encode
from rl.lm.lengths import LengthCount
from rl.lm.log_probs import TOKENS_PER_BATCH, PromptAndAnswer, make_passes
from rl.lm.model_path import base_of, check_model_path, check_weights, is_adapter, is_reward_model
from rl.lm.own_tokens import plain
from rl.lm.reading import describe_base, errors_as
from rl.lm.resources import release_memory, resource_advice
from rl.lm.token_tree.sharing import HEAD, shared_tokens
from rl.training.calibration import sigmoid


class RewardModel:
    """Scores whole answers. ``model`` gives one number for each sequence."""

    def __init__(
        self, model: torch.nn.Module, tokenizer: PreTrainedTokenizerBase, most_tokens: int, precision: str
    ) -> None:
        self._model, self._tokenizer, self._most_tokens = model.eval(), tokenizer, most_tokens
        self._autocast = loading.autocast_dtype(precision)

    def __call__(self, trace: TraceRecord) -> AnswerScore:
        value = self.score(trace.prompt, trace.response)
        return AnswerScore(value, {} if value is None else {"reward_model": value})

    def score(self, prompt: Sequence[Message], response: str) -> float | None:
        """0 to 1; None for a prompt that is too long."""
        row = {"prompt": prompt, "completion": [{"role": "assistant", "content": response}]}
        [number] = self.numbers([row], silent)
        return None if number is None else sigmoid(number)

    @torch.inference_mode()
    def numbers(self, rows: Sequence[Mapping[str, Any]], report: Report) -> list[float | None]:
        """``rows``: each a ``prompt`` and a ``completion``. None where the prompt leaves no room for an answer."""
        lengths = LengthCount()
        whole = encode(self._tokenizer, rows, len(rows), report, SINGLE)
        encoded = [lengths.fit(row, self._most_tokens) for row in whole]
        sequences = [row["prompt_ids"] + plain(row["completion_ids"]) for row in encoded if row is not None]
        device = next(self._model.parameters()).device
        scores, done = torch.zeros(len(sequences)), 0
        texts: list[PromptAndAnswer] = [(ids, []) for ids in sequences]
        # an answer alone shares nothing, and rewards ask for one at a time
        with shared_tokens(loading.base_within(self._model), report) if len(texts) > 1 else nullcontext():
            for batch in make_passes(self._model, texts, range(len(texts)), TOKENS_PER_BATCH[device.type]):
                inputs = pad_right([sequences[index] for index in batch], self._tokenizer.pad_token_id)
                scores[batch] = self.logits(*(tensor.to(device) for tensor in inputs)).cpu()
                done += len(batch)
                report("step", {"step": done, "total_steps": len(sequences), "metrics": {}})
        numbers = iter(scores.tolist())
        return [None if row is None else next(numbers) for row in encoded]

    @torch.inference_mode()
    def logits(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Both (B, T), padded on the right, on the model's device; returns (B,)."""
        with torch.autocast(input_ids.device.type, dtype=self._autocast, enabled=self._autocast is not None):
            output = self._model(input_ids=input_ids, attention_mask=attention_mask, use_cache=False)
        return output.logits.squeeze(-1).float()  # (B, 1) to (B,)


def pad_right(sequences: Sequence[Sequence[int]], pad_token_id: int) -> tuple[Tensor, Tensor]:
    """Token ids and their mask, (B, T): the head reads the last token that is not padding."""
    ids = [torch.tensor(sequence) for sequence in sequences]
    masks = [torch.ones_like(row) for row in ids]
    padded: Tensor = pad(ids, padding_value=pad_token_id, padding_side="right")
    return padded, pad(masks, padding_value=0, padding_side="right")


def load(directory: Path) -> RewardModel:
    """Raises UsageError for a directory that holds no reward model, TrainingFailed for one that cannot be loaded."""
    if not is_reward_model(check_weights(directory, UsageError)):
        raise UsageError(f"{directory} is not a reward model: train_reward_model makes one")
    loading.quiet()
    base = base_of(directory) if is_adapter(directory) else str(directory)
    model = _load_model(base, directory, "auto")
    return RewardModel(model, loading.load_tokenizer(base), loading.context_length(model.config), "auto")


def load_scoring_base(base: str, precision: str, quantize: str = "none") -> PreTrainedModel:
    """The base model with a head that gives 0 to everything."""
    if quantize == "4bit":
        raise UsageError("the base of a reward model is not quantised: leave out quantize_base 4bit")
    model = _read(base, precision)
    torch.nn.init.zeros_(getattr(model, HEAD).weight)
    return model


def _read(base: str, precision: str) -> PreTrainedModel:
    """The head, in float32, is what the directory has of it."""
    dtype = torch.bfloat16 if loading.uses_bf16(precision) else torch.float32
    release_memory()
    with errors_as(TrainingFailed, f"cannot load the model of {describe_base(base)}"), resource_advice():
        model = AutoModelForSequenceClassification.from_pretrained(
            check_model_path(base), num_labels=1, dtype=dtype, use_safetensors=True, trust_remote_code=False
        )
        tokenizer = loading.load_tokenizer(base)
        model.config.get_text_config().pad_token_id = tokenizer.pad_token_id
        getattr(model, HEAD).float()
        return model.to(loading.device())


def score_versions(
    base_model: str,
    adapters: Mapping[str, Path | None],
    pairs: Sequence[Mapping[str, Any]],
    *,
    max_length: int,
    report: Report,
    precision: str = "auto",
) -> dict[str, list[PairScore | None]]:
    """As ``rl.evaluation.torch.scoring``, with the model's numbers in the place of log-probabilities. None is a model that
    tells nothing apart."""
    loading.quiet()
    loading.leave_a_core_free()
    report("stage", {"name": "loading the base model"})
    tokenizer, scores = loading.load_tokenizer(base_model), {}
    for name, adapter in adapters.items():
        model = _load_model(base_model, adapter, precision)
        most_tokens = min(max_length, loading.context_length(model.config))
        report("stage", {"name": f"scoring {name}"})
        scores[name] = score_pairs(RewardModel(model, tokenizer, most_tokens, precision), pairs, report)
    return scores


def score_pairs(model: RewardModel, pairs: Sequence[Mapping[str, Any]], report: Report) -> list[PairScore | None]:
    """The rejected answer is one to ``rejected_prompt``, where a pair has that."""
    answers = [{**tools_of(pair), "prompt": pair["prompt"], "completion": pair["chosen"]} for pair in pairs]
    answers += [
        {**tools_of(pair), "prompt": pair.get("rejected_prompt", pair["prompt"]), "completion": pair["rejected"]}
        for pair in pairs
    ]
    # first all chosen ones, then all rejected ones
    numbers = model.numbers(answers, report)
    return [
        None if chosen is None or rejected is None else PairScore(pair["prompt_key"], chosen, rejected)
        for pair, chosen, rejected in zip(pairs, numbers[: len(pairs)], numbers[len(pairs) :], strict=True)
    ]


def _load_model(base: str, weights: Path | None, precision: str) -> PreTrainedModel | PeftModel:
    """``weights``: an adapter on the base model, or a whole model; None: the base model."""
    if weights is not None and not is_adapter(weights):
        return _read(str(weights), precision)
    model = load_scoring_base(base, precision)
    return model if weights is None else loading.put_adapter(model, weights, TrainingFailed)
