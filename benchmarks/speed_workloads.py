"""What is timed: each workload builds the ways to do it, and lets them compete."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks import (
    speed_evaluation,
    speed_freezing,
    speed_generation,
    speed_import,
    speed_ingestion,
    speed_rollouts,
    speed_start,
)
from benchmarks.speed_contest import compete
from benchmarks.speed_rows import Row, join_pairs, label_pairs, make_pairs, weigh_pairs
from benchmarks.speed_trainers import (
    DEFAULT,
    EMULATES_BF16,
    FAST,
    FP32,
    HALF,
    PLAIN,
    TUNED,
    Setting,
    make_ours,
    make_stock,
)
from rl.base.records import silent
from rl.lm import base_models, loading

Tell = Callable[[str], None]
Run = Callable[[Path, Path, int, Tell], list[dict[str, Any]]]


@dataclass(frozen=True)
class Workload:
    about: str
    run: Run


def prepare_model(short: bool) -> Path:
    """SmolLM2-135M, which is fetched once, or a toy."""
    return Path(base_models.resolve("tiny" if short else "smollm2", silent))


def words_of(base: Path) -> int:
    return int(loading.read_config(str(base), RuntimeError).vocab_size)


def train(
    method: str,
    shape: Callable[[list[Row]], list[Row]],
    batch: int,
    *,
    share: bool = False,
    layers: int = 0,
    every: bool = False,
    tuned: bool = True,
) -> Run:
    """``shape``: from pairs to the method's rows, of which ``batch`` make a pass. ``every``: all ways take part,
    however long they take. ``tuned``: TRL by its own switches does."""

    def run(base: Path, folder: Path, rounds: int, tell: Tell) -> list[dict[str, Any]]:
        passes = rounds + (rounds > 1)
        rows = shape(make_pairs(passes * batch, words_of(base), share=share))[: passes * batch]
        setting = Setting(method, base, rows, batch, folder, layers)
        with ExitStack() as block:
            in_bf16 = rounds > 1 and not EMULATES_BF16
            stock = [FP32, *([DEFAULT] if every or in_bf16 else []), *([TUNED] if tuned else [])]
            ways = [make_stock(setting, name, block) for name in stock]
            own = [*([PLAIN] if every else []), *([HALF] if in_bf16 else []), FAST]
            ways += [make_ours(setting, name, block) for name in own]
            return compete(ways, rounds, tell, warm=True)

    return run


def _as_they_are(pairs: list[Row]) -> list[Row]:
    return pairs


WORKLOADS: Final = {
    "dpo-own": Workload("one pair a pass, prompts of their own", train("dpo", _as_they_are, 1, every=True)),
    "dpo-shared": Workload(
        "four pairs a pass, prompts that begin with one catalogue",
        train("dpo", _as_they_are, 4, share=True, tuned=False),
    ),
    "dpo-top": Workload("one pair a pass, adapters on a third of the layers", train("dpo", _as_they_are, 1, layers=10)),
    "kto": Workload("two answers a pass", train("kto", lambda pairs: label_pairs(pairs, 2), 2)),
    "mixed": Workload("one pair a pass, with imitation of the chosen answer", train("mpo", weigh_pairs, 1)),
    "reward_model": Workload("one pair a pass", train("reward_model", join_pairs, 1)),
    "evaluation": Workload(
        "base and tuned on 32 pairs of eight prompts, four answers each, that begin with one catalogue",
        speed_evaluation.run,
    ),
    "generation": Workload("six answers of 64 tokens to one prompt, with an adapter", speed_generation.run),
    "grpo": Workload("a group of six answers of 64 tokens: sampled, rewarded, learned from", speed_rollouts.run_grpo),
    "ppo": Workload("a batch of four answers of 32 tokens and one pass over them", speed_rollouts.run_ppo),
    "freezing": Workload("ratings in the database into frozen pairs", speed_freezing.run),
    "import": Workload("a file of rated answers", speed_import.run),
    "ingestion": Workload("answers and ratings through the API", speed_ingestion.run),
    "start-up": Workload("a process that imports what trains, or is a command that does little", speed_start.run),
}
