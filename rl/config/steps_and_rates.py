"""Steps and learning rates, those of methods that learn from rewards of answers which they make themselves too.

Such an answer teaches less than one that people chose. Measured on SmolLM2-135M with a reward for Markdown and GRPO's 32
answers a step: 0.69 becomes 1 in 12 steps at 1e-3 and in 17 at 5e-4, 0.83 in 20 at 2e-4, 0.75 with the top ten layers alone.

- learning rate: 5e-4 x 576 / hidden size, between 2e-5 and 1e-3;
- a step: 4 prompts with all their answers, or 4 tasks of an agent with all their episodes (0.4 becomes 1 in 5 steps);
- passes: as many as make 30 steps, at most 10;
- layers: all.

PPO takes the same rate and 30 batches, in at most 80 passes. With the same model and reward, prompts that ask for tips, and
the values below 0.81 becomes 0.98 in 3 batches and 1 in 6; with plain prompts 0.71 becomes 1 in 19. Lambda 0.95 and a KL
weight of 0.2 leave both as they are in 4 to 6: the weight takes more for a nat than a reward of 0 to 1 gives."""

import math
from typing import Any

from rl.config.base import FULL_LEARNING_RATE, TrainingConfig
from rl.config.method_configs import AgentConfig, GRPOConfig
from rl.config.ppo_config import PPOConfig

_HIDDEN_SIZE, _RATES, _ROWS_A_PASS = 576, (2e-5, 1e-3), 4
_RATE, _STEPS = 5e-4, 30
_PROMPTS_A_STEP, _MOST_PASSES, _MOST_ANSWERS = 4, 10, 80
_OF_PPO: dict[str, Any] = {"batch_size": 16, "mini_batch_size": 8, "gradient_accumulation": 2, "ppo_epochs": 2}
_OF_PPO |= {"lam": 1.0, "init_kl_coef": 0.02}


def scale_rate(measured: float, config: TrainingConfig, hidden_size: int) -> float:
    """``measured``: at the hidden size of SmolLM2-135M."""
    rate = min(max(measured * _HIDDEN_SIZE / hidden_size, _RATES[0]), _RATES[1])
    return float(f"{rate * (FULL_LEARNING_RATE if config.full else 1):.2g}")


def cut(config: TrainingConfig, rows_a_step: int, least_rows: int, rows_a_pass: int = _ROWS_A_PASS) -> tuple[int, int]:
    """``batch_size`` and ``gradient_accumulation``, either as it is given."""
    batch, passes = int(config.batch_size), int(config.gradient_accumulation)
    if "batch_size" in config.automatic:
        given = "gradient_accumulation" not in config.automatic
        batch = max(least_rows, rows_a_step // passes if given else rows_a_pass)
    return batch, max(1, round(rows_a_step / batch)) if "gradient_accumulation" in config.automatic else passes


def choose_for_rewards(config: GRPOConfig | PPOConfig, rows: int, hidden_size: int | None) -> dict[str, Any]:
    """``rows``: prompts, or tasks."""
    rate = {"learning_rate": scale_rate(_RATE, config, hidden_size)} if hidden_size else {}
    if isinstance(config, PPOConfig):
        chosen = _OF_PPO | {name: getattr(config, name) for name in _OF_PPO if name not in config.automatic}
        chosen["mini_batch_size"] = min(chosen["mini_batch_size"], chosen["batch_size"])
        steps, most = rows / chosen["batch_size"], _MOST_ANSWERS
    else:
        prompts = min(_PROMPTS_A_STEP, max(1, rows))
        batch, passes = cut(config, prompts * int(config.num_generations), 1)
        chosen = {"batch_size": batch, "gradient_accumulation": passes}
        steps, most = math.ceil(rows / prompts), _MOST_PASSES
    return chosen | rate | {"epochs": float(min(most, max(1, math.ceil(_STEPS / steps)))) if rows else 1.0}


def step_in_words(config: TrainingConfig) -> str:
    if not isinstance(config, GRPOConfig):
        return f"{config.rows_a_step} {'answers' if isinstance(config, PPOConfig) else 'rows'} a step"
    groups = math.ceil(config.rows_a_step / config.num_generations)
    row, answers = ("task", "episodes") if isinstance(config, AgentConfig) else ("prompt", "answers")
    return f"{groups} {row}{'s' * (groups != 1)} with {config.num_generations} {answers} each a step"
