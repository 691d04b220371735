"""Prompts whose answers are generated while training, and the function that rewards these answers."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice, tee
from pathlib import Path
from statistics import fmean
from typing import Any

from datasets import Dataset, Features, List, Value
from transformers import PreTrainedTokenizerBase

from rl.base.errors import UsageError
from rl.base.leaves import leaf
from rl.base.records import Scorer
from rl.config.training_job import TrainingJob
from rl.data_formatter import read_training_rows
from rl.data_formatter.fresh import fresh_trace
from rl.lm.encoding import answer_words, count_rows, encode
from rl.lm.lengths import LengthCount, TokenLimits
from rl.training.callbacks import COMPONENT
from rl.training.preparing import Start, check_lengths, write_arrow

REWARD_MODEL = "rl.training.reward_scoring"
"""Has ``load(directory) -> Scorer``."""
_COLUMNS = Features(
    {
        "prompt": List({"role": Value("string"), "content": Value("string")}),
        "row": Value("string"),
        "tokens": Value("int32"),
    }
)
"""``row``: the whole row as JSON, because the details of any two rows differ in shape."""


def tokenised_prompts(start: Start, answer_tokens: int) -> tuple[Dataset, LengthCount]:
    """The prompts that leave room for a whole answer, memory-mapped, and what was too long of them."""
    limits, lengths = replace(start.limits, answer=int(answer_tokens)), LengthCount()
    fitting = _fit_prompts(start, start.job.train_rows, limits, lengths)
    prompts = write_arrow(fitting, start.path("prompts.arrow"), _COLUMNS)
    check_lengths(lengths, start, limits, "prompts")
    return prompts, lengths


def held_out_prompts(start: Start, answer_tokens: int) -> Dataset:
    """The same of the first ``eval_prompts`` of those that were held out."""
    source, limits = start.job.heldout_rows, replace(start.limits, answer=int(answer_tokens))
    fitting: Iterator[dict[str, Any]] = iter(())
    if start.job.eval_prompts and source is not None and source.is_file():
        fitting = islice(_fit_prompts(start, source, limits, LengthCount()), start.job.eval_prompts)
    return write_arrow(fitting, start.path("held-out-prompts.arrow"), _COLUMNS)


def _fit_prompts(start: Start, source: Path, limits: TokenLimits, lengths: LengthCount) -> Iterator[dict[str, Any]]:
    rows, asked = tee(read_training_rows(source, "prompts"))
    encoded = encode(start.tokenizer, asked, count_rows(source), start.report, ())
    for row, ids in zip(rows, encoded, strict=True):
        if lengths.fit(ids, limits.prompt + 1):
            messages = [{"role": message["role"], "content": message["content"]} for message in row["prompt"]]
            yield {"prompt": messages, "row": json.dumps(row), "tokens": len(ids["prompt_ids"])}


def reward_function(
    scorer: Scorer, tokenizer: PreTrainedTokenizerBase, alive: Callable[[], None]
) -> Callable[..., list[float | None]]:
    """A reward function as TRL calls it. It raises RewardFailed, which ends the training."""

    def reward(
        completion_ids: Sequence[Sequence[int]],
        row: Sequence[str],
        tokens: Sequence[int],
        log_metric: Callable[[str, float], None],
        **others: Any,
    ) -> list[float | None]:
        # N answers, in groups that TRL keeps together; a reward that does not apply is None
        values: list[float | None] = []
        components: defaultdict[str, list[float]] = defaultdict(list)
        for ids, text, prompt in zip(completion_ids, row, tokens, strict=True):
            answer = answer_words(tokenizer, ids)
            score = scorer(fresh_trace(json.loads(text), answer, prompt, len(ids)))
            values.append(score.value)
            for name, value in score.components.items():
                components[name].append(value)
            alive()
        for name, of_one in components.items():
            log_metric(f"{COMPONENT}{name}", fmean(of_one))
        return values

    return reward


def scorer_of(job: TrainingJob) -> Scorer:
    """The reward model's, or the agent's rewards. Raises UsageError where there is neither."""
    if job.reward_model is not None:
        load: Callable[[Path], Scorer] = leaf(REWARD_MODEL).load
        return load(job.reward_model)
    if job.scorer is None:
        raise UsageError("answers that are generated while training need rewards, or a reward model")
    return job.scorer
