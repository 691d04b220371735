"""What each model does in the episodes of held-out tasks: always the likeliest token, so that it is the same again."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedTokenizerBase

from rl.base.records import Report
from rl.config import AgentConfig
from rl.environments.crew import crew
from rl.environments.episode import PlayedEpisode
from rl.environments.settings import EnvironmentSettings
from rl.lm import loading
from rl.lm.generating import likeliest, stop_at
from rl.lm.lengths import TokenLimits
from rl.lm.packed_layers import packed_layers
from rl.lm.resources import resource_advice
from rl.training.agent.episodes import Ids, Play
from rl.training.agent.train import stage_in

TOGETHER = 32
"""Episodes at once."""


def solve_versions(
    base_model: str,
    compared: Mapping[str, Path | None],
    tasks: Sequence[Mapping[str, Any]],
    config: AgentConfig,
    report: Report,
) -> dict[str, list[PlayedEpisode]]:
    """An episode of each task under each adapter or whole model, None being the base model, which is loaded once; in the
    order of the tasks. Raises UsageError for a base model that is none or an environment that cannot be made, and
    TrainingFailed for a model or an adapter that cannot be loaded."""
    loading.use_device(config.device)
    tokenizer, model = loading.open_model(base_model, report, precision=config.precision, manner=config.manner)
    # room of an episode: its tokens in all, of which a turn needs max_new_tokens
    room = TokenLimits(int(config.max_length), loading.context_length(model.config), int(config.max_new_tokens))
    settings = EnvironmentSettings(**config.environment)
    episodes: dict[str, list[PlayedEpisode]] = {}
    with crew(settings, int(config.async_rollout_workers)) as world:
        stage = stage_in(world, tokenizer, room, config)
        for name, weights in compared.items():
            report("stage", {"name": f"solving tasks as {name}"})
            with resource_advice(), loading.with_weights(model, weights) as adapted:
                stop_at(adapted, stage.chat.end_ids)
                say = partial(_say, adapted, tokenizer, room.answer)
                episodes[name] = []
                with packed_layers(adapted):
                    for start in range(0, len(tasks), TOGETHER):
                        plays = stage.play(tasks[start : start + TOGETHER], say)
                        episodes[name] += (play.episode(settings.type) for play in plays)
                        step = {"step": len(episodes[name]), "total_steps": len(tasks), "metrics": {}}
                        report("step", step)
    return episodes


def _say(model: torch.nn.Module, tokenizer: PreTrainedTokenizerBase, most: int, plays: Sequence[Play]) -> list[Ids]:
    return likeliest(model, tokenizer, [play.context for play in plays], most)
