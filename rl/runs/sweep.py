"""``--sweep``: three learning rates, each for a part of the run's steps on a part of its training rows. The rate that does
best on the other training rows is the run's; no held-out row is looked at.

A trial's finding is stored when it ends, so that a run that was stopped goes on with the next one, and does not try again
what it has settled.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from rl.base.errors import NotEnoughData, UsageError
from rl.base.files import remove, write_json, write_text
from rl.base.leaves import leaf
from rl.base.measurements import PairScore
from rl.base.records import Report
from rl.config import TrainingConfig
from rl.config.automatic import in_words
from rl.config.training_job import TrainingJob
from rl.dataset_builder import is_held_out
from rl.evaluation import SCORERS
from rl.evaluation.held_out import contrasts
from rl.runs.ladder import Train

TIMES = (0.5, 1.0, 2.0)
"""The rates, of the one that the run would have."""
ASIDE = 0.2
"""Share of the training prompts that trials are measured on."""
FEWEST_ROWS, FEWEST_STEPS, PART_OF_STEPS, MOST_COST = 30, 20, 3, 3
MOST_KL = 0.5
"""Nats a token between a trial and the base model. At 1 a small model was broken."""
ASKED, ANSWER_TOKENS = 8, 48
"""Prompts that a trial answers for its divergence to be measured, and tokens of an answer."""

FILE = "sweep.json"


@dataclass(frozen=True, slots=True)
class Trial:
    rate: float
    loss: float
    """-log sigmoid(beta x margin), the mean over the pairs aside; the margin in nats, less the base model's."""
    accuracy: float
    """Share of the pairs whose margin grew."""
    kl: float | None
    """Nats a token; None where no prompt left room for an answer."""

    @property
    def is_sound(self) -> bool:
        return math.isfinite(self.loss) and (self.kl is None or self.kl <= MOST_KL)

    def __str__(self) -> str:
        kl = "" if self.kl is None else f", {self.kl:.2f} nats a token from the base model"
        return f"{in_words(self.rate)}: loss {self.loss:.3f}, {self.accuracy:.0%} right{kl}"


def trial_steps(config: TrainingConfig, rows: int) -> int:
    """Steps of a trial. Raises UsageError where a sweep would not be cheap, or would show nothing."""
    if rows < FEWEST_ROWS:
        raise UsageError(f"--sweep needs {FEWEST_ROWS} rows to train on, and there are {rows}: leave it out")
    steps = config.steps(rows)
    of_trial = max(FEWEST_STEPS, math.ceil(steps / PART_OF_STEPS))
    if len(TIMES) * of_trial > MOST_COST * steps:
        raise UsageError(
            f"--sweep would take {len(TIMES) * of_trial} steps to choose the rate of {steps}: leave it out, or train longer"
        )
    return of_trial


def rates(config: TrainingConfig) -> list[float]:
    return [float(f"{config.learning_rate * times:.2g}") for times in TIMES]


def describe_sweep(config: TrainingConfig, rows: int) -> str:
    """Raises UsageError as ``trial_steps``."""
    tried = ", ".join(map(in_words, rates(config)))
    return f"{trial_steps(config, rows)} steps each at {tried}, without the {ASIDE:.0%} of the prompts they are measured on"


def swept(train: Train, job: TrainingJob, report: Report, kind: str) -> TrainingConfig:
    """The job's configuration with the best of three rates. ``train``: the method's; ``kind``: the name of its kind of rows.
    Raises UsageError as ``trial_steps``, NotEnoughData, and what ``train`` raises."""
    folder = job.output_dir / "sweep"
    rows = [json.loads(line) for line in job.train_rows.read_text(encoding="utf-8").splitlines()]
    steps = trial_steps(job.config, len(rows))
    trained, aside = _split(rows, kind)
    tried, findings = _read(job)
    for rate in tried[len(findings) :]:
        trial_job = _trial_job(job, folder / in_words(rate), trained, rate, steps)
        findings.append(_try(train, trial_job, aside, _quietly(report, in_words(rate))))
        write_json(job.output_dir / FILE, {"rates": tried, "trials": list(map(asdict, findings))})
    remove(folder)
    best = best_of(findings)
    report("log", {"text": f"sweep: {'; '.join(map(str, findings))}; takes {in_words(best.rate)}"})
    return replace(job.config, learning_rate=best.rate)


def best_of(trials: Iterable[Trial]) -> Trial:
    """The least loss of those that stay near to the base model; where none does, the smallest rate."""
    trials = list(trials)
    if sound := [trial for trial in trials if trial.is_sound]:
        return min(sound, key=lambda trial: (trial.loss, trial.rate))
    return min(trials, key=lambda trial: trial.rate)


def _split(rows: Sequence[Mapping[str, Any]], kind: str) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
    """Rows to train on, and contrasts to measure on."""
    is_aside = [is_held_out("sweep", row.get("split_key") or row["prompt_key"], ASIDE) for row in rows]
    trained = [row for row, aside in zip(rows, is_aside, strict=True) if not aside]
    pairs = contrasts(kind, [row for row, aside in zip(rows, is_aside, strict=True) if aside])
    if not trained or not pairs:
        raise NotEnoughData(
            f"--sweep sets {ASIDE:.0%} of the training prompts aside, and these are too few: leave it out"
        )
    return trained, list(pairs)


def _trial_job(
    job: TrainingJob, folder: Path, rows: Sequence[Mapping[str, Any]], rate: float, steps: int
) -> TrainingJob:
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / "train.jsonl", "".join(f"{json.dumps(row)}\n" for row in rows))
    config = replace(job.config, learning_rate=rate, max_steps=steps, save_steps=steps, most_kl=0)
    return replace(job, train_rows=folder / "train.jsonl", config=config, output_dir=folder, resume=False, folds=0)


def _try(train: Train, job: TrainingJob, aside: Sequence[Mapping[str, Any]], report: Report) -> Trial:
    result, config = train(job, report), job.config
    asked = [row for row in aside[:ASKED] if "rejected_prompt" not in row] or aside[:1]
    speaker = leaf("rl.evaluation.torch.answering").Speaker(asked, int(config.max_length), ANSWER_TOKENS, report)
    scores: dict[str, list[PairScore | None]] = leaf(SCORERS["preference"]).score_versions(
        job.base_model,
        {"base": None, "new": result.weights_dir},
        aside,
        max_length=int(config.max_length),
        report=report,
        precision=config.precision,
        manner=config.manner,
        also=lambda name, *loaded: speaker(name, *loaded) if name == "new" else None,
    )
    relative = [new.relative_to(base) for new, base in zip(scores["new"], scores["base"], strict=True) if new and base]
    margins = [score.margin for score in relative]
    # -log sigmoid(x) = log(1 + e^-x)
    logits = [config.beta * margin for margin in margins]
    losses = [max(-logit, 0.0) + math.log1p(math.exp(-abs(logit))) for logit in logits]
    accuracy = fmean([score.credit for score in relative]) if margins else 0.5
    return Trial(config.learning_rate, fmean(losses) if losses else math.inf, accuracy, speaker.meter.divergence)


def _read(job: TrainingJob) -> tuple[list[float], list[Trial]]:
    """The rates, and what an earlier attempt saw of the first of them. The run's rate may be the best of them already."""
    try:
        before = json.loads((job.output_dir / FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return rates(job.config), []
    return before["rates"], [Trial(**trial) for trial in before["trials"]]


def _quietly(report: Report, name: str) -> Report:
    """Progress and a place to stop, without figures that would stand among the run's own."""

    def tell(event: str, values: dict[str, Any]) -> None:
        if event == "stage":
            values = {"name": f"sweep {name}: {values['name']}"}
        elif event == "step":
            values = {**values, "metrics": {}}
        elif event == "log":
            values = {"text": f"sweep {name}: {values['text']}"}
        report(event, values)

    return tell
