"""What each model does in the episodes of held-out tasks: always the likeliest token, so that it is the same again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedTokenizerBase

from rl.base.records import Report
from rl.config import AgentConfig
from rl.environments.crew import crew
from rl.environments.episode import Episode
from rl.environments.settings import EnvironmentSettings
from rl.lm import loading
from rl.lm.generating import likeliest, stop_at
from rl.lm.lengths import Limits
from rl.lm.packed_layers import packed_layers
from rl.lm.resources import resource_advice
from rl.training.agent.episodes import Ids, Play, Stage
from rl.training.agent.train import stage_in

TOGETHER = 32
"""Episodes at once."""


def solve_versions(
    base_model: str,
    compared: Mapping[str, Path | None],
    tasks: Sequence[Mapping[str, Any]],
    config: AgentConfig,
    report: Report,
) -> dict[str, list[Episode]]:
    """An episode of each task under each adapter or whole model, None being the base model, which is loaded once; in the
    order of the tasks. Raises UsageError for a base model that is none or an environment that cannot be made, and
    TrainingFailed for a model or an adapter that cannot be loaded.
    """
    loading.quiet()
    loading.leave_a_core_free()
    loading.use_device(config.device)
    report("stage", {"name": "loading the base model"})
    tokenizer, model = loading.load_tokenizer(base_model), loading.load_base(base_model, config.precision).eval()
    # room of an episode: its tokens in all, of which a turn needs max_new_tokens
    room = Limits(int(config.max_length), loading.context_length(model.config), int(config.max_new_tokens))
    settings = EnvironmentSettings(**config.environment)
    episodes: dict[str, list[Episode]] = {}
    with crew(settings, int(config.async_rollout_workers)) as world:
        stage = stage_in(world, tokenizer, room, config)
        for name, weights in compared.items():
            report("stage", {"name": f"solving tasks as {name}"})
            with resource_advice(), loading.with_weights(model, weights) as adapted:
                stop_at(adapted, stage.chat.end_ids)
                policy = _Policy(adapted, tokenizer, room.answer)
                with packed_layers(adapted):
                    episodes[name] = list(_episodes(stage, tasks, policy, settings.type, report))
    return episodes


class _Policy:
    def __init__(self, model: torch.nn.Module, tokenizer: PreTrainedTokenizerBase, most: int) -> None:
        self._model, self._tokenizer, self._most = model, tokenizer, most

    def __call__(self, plays: Sequence[Play]) -> list[Ids]:
        return likeliest(self._model, self._tokenizer, [play.context for play in plays], self._most)


def _episodes(
    stage: Stage, tasks: Sequence[Mapping[str, Any]], policy: _Policy, environment: str, report: Report
) -> Iterator[Episode]:
    for start in range(0, len(tasks), TOGETHER):
        part = tasks[start : start + TOGETHER]
        yield from (play.episode(environment) for play in stage.play(part, policy))
        report("step", {"step": start + len(part), "total_steps": len(tasks), "metrics": {}})
