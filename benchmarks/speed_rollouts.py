"""A step of GRPO, by TRL's trainer and by that of this project, and a batch of PPO: answers, rewards, what is learned."""

import json
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM
from trl import GRPOConfig, GRPOTrainer

from benchmarks.speed_contest import Way, compete
from benchmarks.speed_generation import ANSWERS, QUESTION, TOKENS, TRANSFORMERS, generate_plainly
from benchmarks.speed_trainers import (
    FAST,
    FP32,
    NO_STEP,
    SWITCHES,
    fill_adapter,
    train_in_turns,
    use_head,
)
from rl.base.records import AnswerScore, TraceRecord, silent
from rl.config import config_class
from rl.config.training_job import TrainingJob
from rl.lm import loading
from rl.lm.lengths import TokenLimits
from rl.training import fitting, grpo
from rl.training.fresh_prompts import tokenised_prompts
from rl.training.ppo import train as ppo
from rl.training.ppo.networks import POLICY
from rl.training.ppo.train import PromptBatches
from rl.training.preparing import Start

PPO_ANSWERS: Final = 4
PPO_TOKENS: Final = 32
BETA: Final = 1.0
"""Of GRPO's loss, which on policy is the divergence from the base model alone."""
Tell = Callable[[str], None]


def run_grpo(base: Path, folder: Path, rounds: int, tell: Tell) -> list[dict[str, Any]]:
    """Every way samples its answers, and then learns from the same ones, so that the losses can be compared."""
    steps = rounds + (rounds > 1)
    answers = _answers(base, ANSWERS)
    with ExitStack() as block:
        ways = [_stock(base, folder, steps, answers, block), _ours(base, folder, steps, answers, block)]
        return compete(ways, rounds, tell, warm=True)


def run_ppo(base: Path, folder: Path, rounds: int, tell: Tell) -> list[dict[str, Any]]:
    """With answers by transformers and by this project; what is learned from are the same ones in both."""
    steps = rounds + (rounds > 1)
    ways = [_ppo(base, folder, name, steps) for name in (TRANSFORMERS, FAST)]
    return compete(ways, rounds, tell, warm=True)


def _rows(count: int) -> list[dict[str, Any]]:
    return [
        {"prompt": [{"role": "user", "content": f"{QUESTION} ({number})"}], "prompt_key": str(number), "details": {}}
        for number in range(count)
    ]


def _stock(base: Path, folder: Path, steps: int, answers: list[list[int]], block: ExitStack) -> Way:
    arguments = GRPOConfig(
        output_dir=str(folder / "trl"),
        per_device_train_batch_size=ANSWERS,
        gradient_accumulation_steps=1,
        num_generations=ANSWERS,
        max_completion_length=TOKENS,
        beta=BETA,
        learning_rate=NO_STEP,
        max_steps=steps,
        use_cpu=True,
        report_to=[],
        disable_tqdm=True,
        logging_steps=1,
        save_strategy="no",
        **SWITCHES[FP32],
    )
    config = _config("grpo", TOKENS, steps)
    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    use_head(compact=False)
    trainer = GRPOTrainer(
        model=model,
        args=arguments,
        reward_funcs=_reward,
        train_dataset=Dataset.from_list([{"prompt": row["prompt"]} for row in _rows(steps)]),
        processing_class=loading.load_tokenizer(str(base)),
        peft_config=fitting.lora(model, config),
    )
    return _in_turns(trainer, FP32, answers, block)


def _ours(base: Path, folder: Path, steps: int, answers: list[list[int]], block: ExitStack) -> Way:
    config = _config("grpo", TOKENS, steps)
    start = _start(base, folder / "grpo", config, steps)
    rows, _ = tokenised_prompts(start, TOKENS)
    use_head(compact=True)
    trainer = grpo.trainer_of(start, config, start.model(), rows, reward_funcs=_reward)
    block.enter_context(fitting.fast_passes(start, trainer.model, rereads=False))
    return _in_turns(trainer, FAST, answers, block)


def _in_turns(trainer: GRPOTrainer, name: str, answers: list[list[int]], block: ExitStack) -> Way:
    generate = trainer._generate_single_turn

    def generate_and_replace(*arguments: Any, **named: Any) -> tuple[list[list[int]], None]:
        generate(*arguments, **named)
        return [list(answer) for answer in answers], None

    trainer._generate_single_turn = generate_and_replace
    fill_adapter(trainer)
    turns = train_in_turns(trainer, name != FP32, block)
    return Way(name, turns.step, count=turns.count)


def _ppo(base: Path, folder: Path, name: str, steps: int) -> Way:
    config = _config("ppo", PPO_TOKENS, steps)
    start = _start(base, folder / f"ppo-{name}", config, steps * int(config.batch_size))
    rows, _ = tokenised_prompts(start, PPO_TOKENS)
    loop = ppo._Loop(start, config, _score, PromptBatches(rows, start.tokenizer, 0), silent)
    networks, sample = loop.networks, loop.networks.sample
    answers = _answers(base, int(config.batch_size), PPO_TOKENS)

    def sample_and_replace(tokenizer: Any, prompts: Sequence[list[int]], **how: Any) -> list[list[int]]:
        if name == FAST:
            sample(tokenizer, prompts, **how)
        else:
            networks._use(POLICY)
            drawn = {key: how[key] for key in ("temperature", "top_p", "top_k")}
            generate_plainly(networks.policy, tokenizer, prompts, PPO_TOKENS, do_sample=True, **drawn)
        return [list(answer) for answer in answers]

    networks.sample = sample_and_replace  # type: ignore[method-assign]

    def step(number: int) -> float:
        loop.progress.step = number
        return loop._batch()[0]["loss"]

    return Way(name, step)


def _answers(base: Path, count: int, tokens: int = TOKENS) -> list[list[int]]:
    words = int(loading.read_config(str(base), RuntimeError).vocab_size)
    answers: list[list[int]] = torch.randint(
        100, words, (count, tokens), generator=torch.Generator().manual_seed(0)
    ).tolist()
    return answers


def _config(method: str, tokens: int, steps: int) -> Any:
    values: dict[str, Any] = {"max_new_tokens": tokens, "learning_rate": NO_STEP, "precision": "fp32"}
    values |= {"max_steps": steps, "save_steps": 1000, "lora_dropout": 0.0}
    if method == "grpo":
        values |= {"batch_size": ANSWERS, "gradient_accumulation": 1, "num_generations": ANSWERS, "beta": BETA}
    else:
        values |= {"batch_size": PPO_ANSWERS, "ppo_epochs": 1}
    return config_class(method)().with_overrides(values)


def _start(base: Path, scratch: Path, config: Any, prompts: int) -> Start:
    scratch.mkdir()
    file = scratch / "prompts.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in _rows(prompts)))
    job = TrainingJob(file, str(base), config, scratch)
    return Start(job, silent, scratch, None, loading.load_tokenizer(str(base)), TokenLimits(1024, 2048))


def _reward(completion_ids: Sequence[Sequence[int]], **others: Any) -> list[float]:
    return [float(sum(ids) % 7) for ids in completion_ids]


def _score(trace: TraceRecord) -> AnswerScore:
    return AnswerScore(float(len(trace.response) % 7))
