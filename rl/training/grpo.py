"""Group relative policy optimisation (Shao et al., 2024) of a LoRA adapter, by TRL's GRPOTrainer.

Rows: of the kind "prompts" (``prompt``, and details for the rewards) with ``rollouts`` online, or of the kind "grpo"
(``prompt``, ``completions``, ``rewards``) offline.

Several answers to one prompt, its group, are rewarded. The advantage of each is A = (its reward - the mean of its
group) / the standard deviation of the group. Maximises, by any ``loss_type`` but cispo, the mean over answer tokens of
min(q A, clip(q, 0.8, 1.2) A) - beta (exp(d) - d - 1), where q is the token's probability over that when it was
generated, 1 on policy, and d = log ref / p against the model that training starts from. An answer that no reward
applies to is left out of its group's mean and deviation, and its advantage is 0: only the KL term acts on it.

Online, the answers are generated here and rewarded by ``job.scorer``. Offline, nothing is generated: stored answers
with their stored rewards come in by TRL's ``rollout_func`` in their place (stored_groups.py). Who gave those answers is
not known, so there is no correction for it: each counts as if the policy had given it now.

Departs from TRL: dropout is off while answers are generated; each epoch's order depends on its number alone; and a step
holds whole groups and begins with fresh answers, whatever batch size and accumulation were asked for
(``whole_groups``). So every step is on policy, and every step is a place from which a resumed training gives the same
numbers: TRL keeps no answers in its checkpoints. Departs from the paper: with ``loss_type`` dapo, the default, every
token of a step weighs the same, where the paper's grpo weighs every answer the same.
"""

import random
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import lcm
from typing import Any, TypeVar

from datasets import Dataset, Features, List, Value
from peft import PeftModel
from transformers import PreTrainedModel
from trl import GRPOConfig as Arguments
from trl import GRPOTrainer
from trl.trainer.utils import RepeatSampler

from rl.base.errors import NotEnoughData, UsageError
from rl.base.messages import tools_of
from rl.base.records import Report, TrainingResult, silent
from rl.config import GRPOConfig
from rl.config.training_job import TrainingJob
from rl.data_formatter import read_training_rows
from rl.lm import loading, processes
from rl.lm.encoding import count_rows, encode
from rl.lm.generating import sample
from rl.lm.lengths import LengthCount
from rl.lm.log_probs import PromptAndAnswer
from rl.lm.own_tokens import own_mask, plain
from rl.training import fitting
from rl.training.callbacks import Alive
from rl.training.fresh_prompts import held_out_prompts, reward_function, scorer_of, tokenised_prompts
from rl.training.imitating import load_untrained, warm_up
from rl.training.kept_passes import kept_passes
from rl.training.preparing import Start, check_lengths, prepare, write_arrow


def train(job: TrainingJob, report: Report) -> TrainingResult:
    config = job.config
    assert isinstance(config, GRPOConfig)  # noqa: S101  the method's own
    require_generator(config, job.schema)
    alive = Alive(report)
    with prepare(job, report) as start:
        online = config.rollouts == "online"
        rows, lengths = tokenised_prompts(start, config.max_new_tokens) if online else encoded_groups(start)
        config = whole_groups(config, len(rows), report)
        if online:
            # rewards: one number for each answer, None where none applies; a group's statistics are TRL's work
            rewards = reward_function(scorer_of(job), start.tokenizer, alive)
            looks = held_out_prompts(start, config.max_new_tokens)
            trainer = trainer_of(start, config, load_untrained(start), rows, looks=looks, reward_funcs=rewards)
            trainer.schema = job.schema
        else:
            # policy: has imitated the best answer of each group first, if the job asks for it
            policy = warm_up(start, best_answers(rows))
            stored = StoredRollouts(rows, config.num_generations, config.seed)
            prompts = rows.select_columns("prompt")
            trainer = trainer_of(start, config, policy, prompts, reward_funcs=stored_rewards, rollout_func=stored)
        alive.watch(trainer)
        with fitting.fast_passes(start, trainer.model, rereads=False):
            fitting.fit(trainer, job, start.checkpoint, report, watches=kept_passes(job))
        return fitting.finish(trainer, start, lengths)


Config = TypeVar("Config", bound=GRPOConfig)
LOOKS = 5
"""At held-out prompts in a training, where nobody says after how many steps."""


class Trainer(fitting.LooksOnly, GRPOTrainer):
    schema: Mapping[str, Any] | None = None
    """That all answers keep to."""

    def _get_train_sampler(self, dataset: Dataset | None = None) -> RepeatSampler:
        """TRL draws the epochs one after the other, so a resumed training would begin with the order of the first."""
        sampler = super()._get_train_sampler(dataset)
        return _EpochSampler(self, sampler) if sampler.shuffle else sampler

    def _tokenize_prompts(self, prompts: list[Any]) -> tuple[Any, Any, dict[str, Any]]:
        """As a server makes them: TRL knows neither a template's switches nor what it refuses."""
        if isinstance(prompts[0], str):  # numbers of stored groups
            return super()._tokenize_prompts(prompts)
        rows = [{"prompt": prompt} for prompt in prompts]
        return [row["prompt_ids"] for row in encode(self.processing_class, rows, len(rows), silent, ())], None, {}

    def _generate_single_turn(self, prompt_ids: Sequence[list[int]], *arguments: Any, **options: Any) -> Any:
        """Dropout would make the answers those of another model than the one that is to be."""
        training = self.model.training
        self.model.eval()
        try:
            if not self.schema and (self.use_vllm or self.accelerator.device.type != "cpu" or processes.cuts_models()):
                return super()._generate_single_turn(prompt_ids, *arguments, **options)
            # as TRL does, whatever the model's own settings of generation are
            how = (self.max_completion_length, self.temperature, self.top_p)
            return sample(
                self.model, self.processing_class, prompt_ids, *how, schema=self.schema, repetition_penalty=1.0
            ), None
        finally:
            self.model.train(training)


class _EpochSampler(RepeatSampler):
    """Each epoch has an order of its own, which depends on its number alone."""

    def __init__(self, trainer: Trainer, of_trl: RepeatSampler) -> None:
        self.__dict__.update(vars(of_trl))
        self._trainer = trainer

    def __iter__(self) -> Iterator[int]:
        steps = self.num_samples // self.batch_size  # each begins with fresh answers
        self.generator.manual_seed(self.seed + self._trainer.state.global_step // steps)
        yield from super().__iter__()


def whole_groups(config: Config, prompts: int, report: Report) -> Config:
    """As many answers a step as asked for, rounded up to whole groups and down to one group for each prompt; forward passes
    of at most the batch size asked for. Of several processes each gets equally many answers."""
    if not prompts:
        raise NotEnoughData("no row fits into max_length, so there is nothing to train on")
    # G answers a group; ``together`` groups are the fewest that the processes can share evenly
    size, asked = int(config.num_generations), int(config.batch_size * config.gradient_accumulation)
    together = lcm(size, processes.count()) // size
    most = prompts // together * together
    if not most:
        raise NotEnoughData(
            f"{processes.count()} processes need {together} prompts to share groups of {size}, and there are {prompts}: "
            "use fewer processes"
        )
    # answers a step: groups x G, as asked for or as many as there are prompts
    groups = min(-(-asked // size // together) * together, most)
    answers = groups * size
    # forward pass: in each process the largest divisor of its answers that is at most its share of the batch size
    own = answers // processes.count()
    batch = processes.count() * next(
        number for number in range(min(processes.share(int(config.batch_size)), own), 0, -1) if own % number == 0
    )
    shape = f"{groups} prompt{'s' * (groups != 1)} with {size} answers each a step, {batch} answers a forward pass"
    report("log", {"text": shape})
    return replace(config, batch_size=batch, gradient_accumulation=answers // batch)


def require_generator(config: GRPOConfig, schema: Mapping[str, Any] | None = None) -> None:
    if schema and (config.vllm or config.vllm_server or processes.cuts_models()):
        raise UsageError(
            "answers are kept to a schema here, and neither by vLLM nor where each process has a part of the model"
        )
    if config.vllm and loading.device().type != "cuda":
        raise UsageError("--vllm needs a GPU, and there is none here: leave it out, or give --vllm-server")


def trainer_of(
    start: Start,
    config: GRPOConfig,
    model: PreTrainedModel | PeftModel,
    rows: Dataset,
    *,
    shuffled: bool = True,
    kind: type[Trainer] = Trainer,
    looks: Dataset | None = None,
    **parts: Any,
) -> Trainer:
    """``shuffled``: else the rows come in their order. ``looks``: prompts that are answered once each, now and then, to see
    how the answers are rewarded."""
    of_grpo: dict[str, Any] = {
        "beta": config.beta,
        "num_generations": int(config.num_generations),
        "temperature": config.temperature,
        "top_p": config.top_p,
        "max_completion_length": int(config.max_new_tokens),
        "loss_type": config.loss_type,
        "disable_dropout": False,
        "shuffle_dataset": shuffled,
    }
    if looks:
        every = start.job.eval_every or 1 / LOOKS
        of_grpo |= {"eval_strategy": "steps", "eval_steps": every, "num_generations_eval": 1}
    warnings.filterwarnings("ignore", message="You are using 'rollout_func'")
    all_parts = fitting.parts(start, model, rows, Arguments, config, held_out=looks, **of_grpo, **_of_vllm(config))
    return kind(**all_parts, **parts)


def _of_vllm(config: GRPOConfig) -> dict[str, Any]:
    if config.vllm_server:
        return {"use_vllm": True, "vllm_mode": "server", "vllm_server_base_url": config.vllm_server}
    return {"use_vllm": True, "vllm_mode": "colocate"} if config.vllm else {}


REWARD = "stored_reward"
_COLUMNS = Features(
    {
        "prompt": Value("string"),
        "prompt_ids": List(Value("int32")),
        "answers": List(List(Value("int32"))),
        "rewards": List(Value("float64")),
    }
)
"""``prompt``: the row's number, which the trainer hands over in place of a prompt."""


def encoded_groups(start: Start) -> tuple[Dataset, LengthCount]:
    """The groups as token ids, memory-mapped, and what was too long of them."""
    lengths = LengthCount()
    groups = write_arrow(_encode_groups(start, lengths), start.path("groups.arrow"), _COLUMNS)
    check_lengths(lengths, start)
    return groups, lengths


def _encode_groups(start: Start, lengths: LengthCount) -> Iterator[dict[str, Any]]:
    path, tokenizer, most_tokens = start.job.train_rows, start.tokenizer, start.most_tokens
    row_number, total = 0, count_rows(path)
    for done, row in enumerate(read_training_rows(path, "grpo"), start=1):
        names = [f"answer{number}" for number in range(len(row["completions"]))]
        group = {**tools_of(row), "prompt": row["prompt"], **dict(zip(names, row["completions"], strict=True))}
        [ids] = encode(tokenizer, [group], 1, silent, names)
        # all answers of a row in one fit: a prompt that is too long drops the group, a long answer is cut
        if fitting := lengths.fit(ids, most_tokens):
            # without what a chat template writes behind the end of the last turn: the model never gives that
            end, answers = tokenizer.eos_token_id, [fitting[f"{name}_ids"] for name in names]
            answers = [ids[: len(ids) - ids[::-1].index(end)] if end in ids else ids for ids in answers]
            yield {
                "prompt": str(row_number),
                "prompt_ids": fitting["prompt_ids"],
                "answers": answers,
                "rewards": row["rewards"],
            }
            row_number += 1
        start.report("step", {"step": done, "total_steps": total, "metrics": {}})


def best_answers(groups: Dataset) -> Iterator[PromptAndAnswer]:
    """The answer with the most reward of each group."""
    for group in iter(groups):
        yield group["prompt_ids"], group["answers"][group["rewards"].index(max(group["rewards"]))]


class StoredRollouts:
    """TRL's ``rollout_func``: for each prompt as many stored answers as a group needs. Of a larger group some are drawn,
    those of a smaller one come several times. The draw depends on seed, row and step alone, so that a resumed training
    draws the same."""

    def __init__(self, groups: Dataset, size: int, seed: int) -> None:
        self._groups, self._size, self._seed = groups, int(size), int(seed)

    def __call__(self, prompts: Sequence[str], trainer: GRPOTrainer) -> dict[str, Any]:
        # N prompts of this process, which begin at ``first`` among those of all processes
        first = trainer.accelerator.process_index * len(prompts)  # a group may lie on several devices
        rollouts: dict[str, Any] = {"prompt_ids": [], "completion_ids": [], "env_mask": [], "logprobs": None}
        rollouts[REWARD] = []
        for number, prompt in enumerate(prompts, start=first):
            group = self._groups[int(prompt)]
            # draw: G answers for the whole group, the same in every process; each place in the group takes one
            chosen = self._draw(len(group["answers"]), prompt, trainer.state.global_step)[number % self._size]
            rollouts["prompt_ids"].append(group["prompt_ids"])
            rollouts["completion_ids"].append(plain(group["answers"][chosen]))
            rollouts["env_mask"].append(own_mask(group["answers"][chosen]))
            rollouts[REWARD].append(group["rewards"][chosen])
        return rollouts  # N lists each; without logprobs TRL takes the policy's own, so the ratio is 1

    def _draw(self, answers: int, prompt: str, step: int) -> list[int]:
        """All of them in any order, then all of them again: none comes twice more often than another."""
        order = random.Random(f"{self._seed} {prompt} {step}")  # noqa: S311
        rounds = range(-(-self._size // answers))
        return [at for _ in rounds for at in order.sample(range(answers), answers)][: self._size]


def stored_rewards(stored_reward: Sequence[float], **others: Any) -> list[float]:
    """The rewards that are stored in the rows: a reward function as TRL calls it."""
    return list(stored_reward)
