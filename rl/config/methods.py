"""The training methods: a record for each, which says all that the rest of the house needs to know about it.

Paths are dotted and imported on first use, because methods bring torch along and row builders the database."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Literal

from rl.base.names import require_known
from rl.config.base import TrainingConfig
from rl.config.method_configs import AgentConfig, DPOConfig, GRPOConfig, MPOConfig, RewardModelConfig, SFTConfig
from rl.config.ppo_config import PPOConfig


class Column(StrEnum):
    """What a column of a row holds, in the words of the message about a row that is wrong."""

    MESSAGES = "a list of messages"
    ANSWERS = "a list of lists of messages"
    FLAG = "true or false"
    NUMBER = "a number"
    SCORE = "a number from 0 to 1"
    NUMBERS = "a list of numbers"
    OBJECT = "an object"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowKind:
    """A kind of rows: how they are built, read, and what a version is measured by on those that are held out."""

    name: str
    """As it stands in ``TrainingSet.method``."""
    builder: str
    """A class, the RowBuilder of ``rl.dataset_builder.capped``."""
    columns: Mapping[str, Column]
    """Beside ``prompt``."""
    optional: frozenset[str] = frozenset()
    """Columns of answers that may be null, but never all of a row's."""
    alternatives: tuple[frozenset[str], ...] = ()
    """Names of columns: each row has those of one alternative, and all columns that are in none."""
    measure: Literal["preference", "reward", "success", ""] = "preference"
    """By which answers it prefers; by the reward of fresh answers; by how many tasks it solves. Empty: not measured."""
    contrast: str = ""
    """A function from held-out rows to better and worse answers, where the rows are not that already."""
    has_pair_types: bool = False
    """The option ``pair_type`` says which pairs they are."""
    of_tasks: bool = False
    """Made of an environment's tasks and not of the agent's answers. Whoever wrote the tasks has split them."""

    def names(self, *kinds: Column) -> tuple[str, ...]:
        return tuple(name for kind in kinds for name, column in self.columns.items() if column is kind)

    def columns_of(self, row: Mapping[str, object]) -> Mapping[str, Column]:
        """Those that this row must have: of the alternatives the first that it has a part of."""
        started = (names for names in self.alternatives if not names.isdisjoint(row))
        chosen = next(started, self.alternatives[0] if self.alternatives else frozenset())
        left_out = frozenset().union(*self.alternatives) - chosen
        return {name: column for name, column in self.columns.items() if name not in left_out}

    @property
    def has_answers(self) -> bool:
        """Else answers are generated, or episodes played, to train and to measure."""
        return bool({Column.MESSAGES, Column.ANSWERS} & set(self.columns.values()))

    @property
    def has_rewards(self) -> bool:
        return bool({Column.NUMBER, Column.NUMBERS, Column.SCORE} & set(self.columns.values()))


@dataclass(frozen=True, slots=True)
class RowWork:
    """What a method does with a row, with LoRA."""

    sequences: int
    """A prompt with an answer each."""
    flops: int
    """A parameter and token: 2 for a forward pass, and 2 for a backward pass, since the frozen weights need no gradient of
    their own. Without what is generated."""
    once: int = 0
    """The part of ``flops`` that is done once a row where there are several epochs: the reference's forward passes."""
    answers: str = ""
    """The hyper-parameter that says how many answers are made to each prompt; each is a row then."""
    passes: str = ""
    """The hyper-parameter that says how often the same rows are trained on."""
    flops_a_pass: int = 0
    copies: int = 0
    """Frozen models that full training keeps beside the one that it trains."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    module: str
    """Has ``train(job: TrainingJob, report: Report) -> TrainingResult``."""
    rows: RowKind
    work: RowWork
    command: str
    """The command of manage.py by which people and the queue train."""
    config: type[TrainingConfig] = TrainingConfig
    """Its hyper-parameters, with their ranges."""
    generates: Literal["never", "online", "always"] = "never"
    """Single answers to prompts, while it trains; online: where its hyper-parameter ``rollouts`` says so."""
    least_rows: int = 1
    """Fewest rows of a forward pass."""
    automatic: tuple[str, ...] = ()
    """The hyper-parameters that the preset ``auto`` leaves to ``rl.config.automatic``."""
    scores: bool = False
    """Its versions score answers instead of giving them."""
    imitates: bool = False
    """It imitates accepted answers and learns nothing else."""
    version: str = "v"
    """What the names of its versions begin with; a number follows that counts up for each agent."""

    def generates_with(self, config: TrainingConfig) -> bool:
        online = getattr(config, "rollouts", "") == "online"
        return self.generates == "always" or (self.generates == "online" and online)

    def rows_with(self, config: TrainingConfig) -> RowKind:
        if bakes_in(config):  # disliked answers have questions too, and tell a judge something
            return _MIXED
        return PROMPTS if self.generates_with(config) else self.rows


def bakes_in(config: TrainingConfig) -> bool:
    """Whether the run makes the answers that it imitates, under the instruction of the version in use."""
    return isinstance(config, SFTConfig) and config.bake_in


_PAIR: Mapping[str, Column] = {"chosen": Column.MESSAGES, "rejected": Column.MESSAGES}
_SCORED: Mapping[str, Column] = {"completion": Column.MESSAGES, "score": Column.SCORE}
PAIRS = RowKind(name="dpo", builder="rl.dataset_builder.rows.pairs.PairRows", columns=_PAIR, has_pair_types=True)
"""The rows of DPO: pairs of a preferred and a rejected answer."""
PROMPTS = RowKind(
    name="prompts",
    builder="rl.dataset_builder.rows.prompts.PromptsOnly",
    columns={"details": Column.OBJECT},
    measure="reward",
)
"""The rows of every method that generates answers: prompts only."""
REWARDED = RowKind(
    name="reward",
    builder="rl.dataset_builder.rows.judged.RewardRows",
    columns={"completion": Column.MESSAGES, "reward": Column.NUMBER},
    measure="",
)
"""Answers with their rewards, for trainers elsewhere."""

_MIXED = RowKind(
    name="mpo",
    builder="rl.dataset_builder.rows.mixed.MixedRows",
    columns={**_PAIR, "weight": Column.NUMBER},
    optional=frozenset(_PAIR),
    contrast="rl.evaluation.held_out.of_mixed",
    has_pair_types=True,
)

METHODS: dict[str, Method] = {
    "mpo": Method(
        module="rl.training.mpo",
        command="train_mpo",
        config=MPOConfig,
        rows=_MIXED,
        # a pair as in DPO; a single answer is half of it, and again half for the point of reference
        work=RowWork(2, 6),
        automatic=MPOConfig.LISTS["automatic"],
        least_rows=2,  # it compares the rows of a pass
    ),
    "sft": Method(
        module="rl.training.sft",
        command="train_sft",
        config=SFTConfig,
        rows=replace(_MIXED, name="sft", builder="rl.dataset_builder.rows.mixed.AcceptedRows"),
        work=RowWork(1, 4),  # forward and backward
        automatic=TrainingConfig.LISTS["automatic"],
        imitates=True,
    ),
    "dpo": Method(
        module="rl.training.dpo",
        command="train_dpo",
        config=DPOConfig,
        rows=PAIRS,
        work=RowWork(2, 6, once=2),  # forward and backward of the policy, forward of the reference
        automatic=TrainingConfig.LISTS["automatic"],
    ),
    "kto": Method(
        module="rl.training.kto",
        command="train_kto",
        rows=RowKind(
            name="kto",
            builder="rl.dataset_builder.rows.judged.LabelledRows",
            columns={"completion": Column.MESSAGES, "label": Column.FLAG},
            contrast="rl.evaluation.held_out.of_labels",
        ),
        work=RowWork(1, 10, once=4),  # as DPO, and a forward pass of both with the answer of another row
        least_rows=2,  # it compares the rows of a pass
        automatic=TrainingConfig.LISTS["automatic"],
    ),
    "grpo": Method(
        module="rl.training.grpo",
        command="train_grpo",
        config=GRPOConfig,
        rows=RowKind(
            name="grpo",
            builder="rl.dataset_builder.rows.judged.GroupRows",
            columns={"completions": Column.ANSWERS, "rewards": Column.NUMBERS},
            contrast="rl.evaluation.held_out.of_groups",
        ),
        work=RowWork(1, 6, answers="num_generations", copies=1),
        generates="online",
        automatic=("epochs", "batch_size", "gradient_accumulation", "learning_rate"),
    ),
    "agent": Method(
        module="rl.training.agent.train",
        command="train_agent",
        config=AgentConfig,
        rows=RowKind(
            name="agent",
            builder="rl.dataset_builder.rows.tasks.TaskRows",
            columns={"task": Column.OBJECT},
            measure="success",
            of_tasks=True,
        ),
        work=RowWork(1, 6, answers="num_generations", copies=1),
        automatic=("epochs", "batch_size", "gradient_accumulation", "learning_rate"),
        version="tasks-v",
    ),
    "ppo": Method(
        module="rl.training.ppo.train",
        command="train_ppo",
        config=PPOConfig,
        rows=PROMPTS,
        work=RowWork(1, 8, passes="ppo_epochs", flops_a_pass=8, copies=1),  # four scores; policy and value
        generates="always",
        automatic=PPOConfig.LISTS["automatic"],
    ),
    "reward_model": Method(
        module="rl.training.reward_model",
        command="train_reward_model",
        config=RewardModelConfig,
        rows=RowKind(
            name="reward_model",
            builder="rl.dataset_builder.rows.reward_model.RewardModelRows",
            columns={**_PAIR, **_SCORED},
            alternatives=(frozenset(_PAIR), frozenset(_SCORED)),
            contrast="rl.data_formatter.scored.of_scores",
        ),
        work=RowWork(2, 4),  # forward and backward
        automatic=TrainingConfig.LISTS["automatic"],
        scores=True,
        version="reward-v",
    ),
}


def find_method(name: str) -> Method:
    """Raises UsageError that lists the known methods."""
    require_known("training method", name, METHODS)
    return METHODS[name]


def config_class(method: str) -> type[TrainingConfig]:
    """Raises UsageError that lists the known methods."""
    return find_method(method).config


def scoring_methods() -> list[str]:
    return [name for name, method in METHODS.items() if method.scores]


def all_rows() -> dict[str, RowKind]:
    """By name, those that methods share once."""
    rows = [*(method.rows for method in METHODS.values()), PROMPTS, REWARDED]
    return {kind.name: kind for kind in rows}


def find_rows(name: str) -> RowKind:
    """Raises UsageError that lists the known kinds."""
    kinds = all_rows()
    require_known("kind of rows", name, kinds)
    return kinds[name]
