"""What a run would refuse for its data, found before there is a run: nothing is written, and torch is not imported."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rl import dataset_builder
from rl.base.errors import NotEnoughData
from rl.base.leaves import leaf
from rl.base.messages import characters
from rl.base.records import Message, silent
from rl.config import TrainingConfig, find_method
from rl.dataset_builder import Survey
from rl.dataset_builder.plan.survey import answers_of
from rl.lm.base_models import tokenizer_file
from rl.lm.lengths import UNKNOWN_CONTEXT, LengthCount, TokenLimits
from rl.models import Agent
from rl.runs.run import RunOptions, files_of, tasks_of
from rl.runs.settling import model_config
from rl.scoring.rollouts import check_rollouts, require_rewards

BUDGET = 4_000_000
"""Characters of long prompts that are tokenised, which takes seconds; the tokens of more are estimated from these."""
CHARACTERS_PER_TOKEN = 4.0
"""Ratio for English text and a vocabulary of 32k to 150k; assumed when no tokenizer is on this machine."""
MESSAGE_TOKENS, OPENING_TOKENS = 5, 3
"""About how many tokens a chat template adds to each message, and to open the answer."""


def checked_survey(
    agent: Agent,
    config: TrainingConfig,
    options: RunOptions,
    method: str,
    directory: Path,
    *others: Callable[[Mapping[str, Any]], None],
) -> Survey:
    """``directory``: of the base model, which need not be there; ``others``: are shown each row to train on. Raises
    NotEnoughData and UsageError as the run would."""
    check_rollouts(agent, method, config, options.rewards, options.reward_model, options.grader)
    record = find_method(method)
    fresh, rows = record.generates_with(config), record.rows_with(config)
    if fresh and not options.reward_model:
        require_rewards(agent, options.rewards, options.grader)
    answer = int(getattr(config, "max_new_tokens", 0)) if fresh or rows.of_tasks else 0
    prompts = LongPrompts(directory, TokenLimits(int(config.max_length), context_of(directory), answer))

    def see(row: Mapping[str, Any]) -> None:
        for saw in (prompts.saw, *others):
            saw(row)

    source = tasks_of(agent, config, options) if rows.of_tasks else files_of(options)
    survey = dataset_builder.survey(agent, options.data, source, method=rows.name, see=see)
    if survey.shortage:
        raise NotEnoughData(survey.shortage)
    prompts.lengths.check(prompts.limits, silent, "about ")
    return survey


class LongPrompts:
    """Counts those that are too long; none where no tokenizer is on this machine."""

    def __init__(self, directory: Path, limits: TokenLimits) -> None:
        self.limits, self.lengths = limits, LengthCount()
        self._file = tokenizer_file(directory)
        self._tokenizer: Any = None
        self._read = self._tokens = 0
        self._last: tuple[list[Message], int] = ([], 0)

    def saw(self, row: Mapping[str, Any]) -> None:
        """A row to train on."""
        if not self._file:
            return
        answers = map(characters, answers_of(row))
        longest = 0 if self.limits.answer else int(max(answers, default=0) / CHARACTERS_PER_TOKEN)
        encoded = {"prompt_ids": range(self._length(row["prompt"])), "answer_ids": range(longest)}
        self.lengths.fit(encoded, self.limits.prompt + 1)

    def _length(self, prompt: list[Message]) -> int:
        """Tokens of the prompt, or the most it can have where that fits: a token stands for at least one byte."""
        if prompt == self._last[0]:
            return self._last[1]
        texts = [message["content"] for message in prompt]
        template = MESSAGE_TOKENS * len(texts) + OPENING_TOKENS
        most = sum(len(text.encode()) for text in texts)
        length = template + (most if most + template <= self.limits.prompt else self._count_tokens(texts))
        self._last = (prompt, length)
        return length

    def _count_tokens(self, texts: Sequence[str]) -> int:
        characters = sum(map(len, texts))
        if self._read > BUDGET:
            return round(characters * self._tokens / self._read)
        if self._tokenizer is None:
            self._tokenizer = leaf("tokenizers").Tokenizer.from_file(str(self._file))
        encoded = self._tokenizer.encode_batch(texts, add_special_tokens=False)
        tokens = sum(len(encoding.ids) for encoding in encoded)
        self._read, self._tokens = self._read + characters, self._tokens + tokens
        return tokens


def context_of(directory: Path) -> int:
    """Tokens that the model has positions for; very large where that is not known here."""
    return int(model_config(directory).get("max_position_embeddings") or UNKNOWN_CONTEXT)
