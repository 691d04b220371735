"""Measures a version on held-out rows, beside its base model and the version in use, and asks the gate."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any, Final

from django.db import transaction

from rl.base.errors import RatchetError, UsageError
from rl.base.leaves import leaf
from rl.base.records import Message, Report
from rl.config import METHODS, AgentConfig, config_class, find_method, find_rows
from rl.config.methods import PAIRS, scoring_methods
from rl.dataset_builder.wording import ask_agent
from rl.evaluation import SCORERS
from rl.evaluation.duels import make_duels
from rl.evaluation.guards.measure import PROMPTS, Guards, one_of_each_prompt, skip
from rl.evaluation.held_out import HeldOut, Labels, labels_of, latest_training_set, never_learned
from rl.evaluation.measures import fields
from rl.evaluation.measures import reward as rewards
from rl.evaluation.measures.right import accepted_answers, measure_right
from rl.evaluation.preferring import measure_preference
from rl.evaluation.subject import DEFAULT, EvaluationOptions, Measured, Subject, of_checkpoint, of_version
from rl.judge.labels import sample_rows
from rl.lm.model_path import is_reward_model
from rl.models import Agent, Evaluation, ModelVersion, TrainingSet
from rl.operations.webhooks.events import version_judged
from rl.scoring import rollouts
from rl.versions import versions


def evaluate(
    version: ModelVersion, training_set: TrainingSet, report: Report, options: EvaluationOptions = DEFAULT
) -> Evaluation:
    """Measures all three models on the set's held-out rows and stores the gate's verdict: by preference accuracy, or where
    the rows are prompts, by the reward of fresh answers (then the accuracies are mean rewards), or where they are tasks, by
    how many are solved (then they are shares of these). A broken guard rail rejects."""
    subject = of_version(version, options, report)
    measured = _measure(subject, training_set, never_learned(training_set, version, subject.current), report)
    with transaction.atomic():
        evaluation = Evaluation.objects.create(
            version=version,
            training_set=training_set,
            against=subject.current,
            report=measured.report,
            **measured.fields,
        )
        make_duels(evaluation, measured.given)
        version_judged(evaluation)
    reward_fresh_answers(evaluation, report)
    return evaluation


def evaluate_checkpoint(
    agent: Agent, weights: Path, report: Report, options: EvaluationOptions = DEFAULT
) -> dict[str, Any]:
    """The same for the directory of an adapter or a whole model that is not a version; nothing is stored."""
    training_set = latest_training_set(agent, scores=is_reward_model(weights))
    subject = of_checkpoint(agent, weights, options, report)
    measured = _measure(subject, training_set, never_learned(training_set, subject.current), report)
    return {"checkpoint": str(weights), **_as_document(measured)}


def evaluate_pairs(
    agent: Agent, measured: ModelVersion | Path, held_out: HeldOut, report: Report, options: EvaluationOptions = DEFAULT
) -> dict[str, Any]:
    """A version, or a checkpoint's directory, on pairs of one's own; nothing is stored."""
    subject, origin = _find_unstored(agent, measured, options, report)
    labels = Labels(PAIRS.name, sample_rows(held_out.rows))
    measured_on = measure_preference(subject, held_out, labels, report, own_data=True)
    return {**origin, **_as_document(_complete(measured_on, subject, held_out))}


def evaluate_answers(
    agent: Agent, measured: ModelVersion | Path, held_out: HeldOut, report: Report, options: EvaluationOptions = DEFAULT
) -> dict[str, Any]:
    """The same on prompts with their right answers, JSON objects: each model's answers are compared with them, field by
    field. Raises UsageError for a reward model, NotEnoughData where no line can be used."""
    subject, origin = _find_unstored(agent, measured, options, report)
    if subject.is_reward_model:
        raise UsageError("a reward model answers nothing: give a file of pairs, which it ranks")
    contest = replace(subject.contest, max_new_tokens=min(subject.answer_length, subject.max_length // 2))
    earnings = fields.compare(contest, held_out.rows, agent.name, report)
    guards = skip("answers are compared with those of a file", agent, subject.task)
    outcome = _complete(_judge(earnings, held_out, "fields", guards, subject), subject, held_out)
    figures = fields.describe(earnings, held_out.rows, agent.name)
    return {**origin, **_as_document(outcome), **figures}


def _find_unstored(
    agent: Agent, measured: ModelVersion | Path, options: EvaluationOptions, report: Report
) -> tuple[Subject, dict[str, str]]:
    """And what it is, for the document."""
    if isinstance(measured, Path):
        return of_checkpoint(agent, measured, options, report), {"agent": agent.name, "checkpoint": str(measured)}
    return of_version(measured, options, report), {"agent": agent.name, "version": measured.name}


def _measure(subject: Subject, training_set: TrainingSet, held_out: HeldOut, report: Report) -> Measured:
    measure = _MEASURES[find_rows(training_set.method).measure]
    return _complete(measure(subject, training_set, held_out, report), subject, held_out)


def _complete(measured: Measured, subject: Subject, held_out: HeldOut) -> Measured:
    task = {"task": asdict(subject.task)} if subject.task else {}
    return replace(measured, report={**measured.report, "learned": held_out.learned, **task})


def _as_document(measured: Measured) -> dict[str, Any]:
    return {**{name: measured.fields[name] for name in ("pairs", "verdict")}, **measured.report}


def _preference(subject: Subject, training_set: TrainingSet, held_out: HeldOut, report: Report) -> Measured:
    is_own = subject.run is not None and subject.run.training_set_id == training_set.pk
    others = [subject.current] if is_own else [subject.current, subject.version]
    accepted = accepted_answers(training_set, subject.run, *others)
    if accepted.decide and not subject.is_reward_model:
        return measure_right(subject, accepted, held_out.share, report)
    return measure_preference(subject, held_out, labels_of(training_set), report, kind=accepted.kind)


def _rewards(subject: Subject, _: TrainingSet, held_out: HeldOut, report: Report) -> Measured:
    scorer = rollouts.scorer_of_run(subject.agent, subject.run.options if subject.run else {})
    watch = subject.watch(one_of_each_prompt(held_out.rows)[:PROMPTS], report)
    earnings = rewards.compare(subject.contest, held_out.rows, scorer, report, watch.speaker)
    return _judge(earnings, held_out, "reward", watch.guards(), subject)


def _success(subject: Subject, training_set: TrainingSet, held_out: HeldOut, report: Report) -> Measured:
    """Played as in its own training, or of a folder of unknown origin, as in the newest training with these tasks."""
    played = find_rows(training_set.method)
    run = subject.run if subject.run and find_method(subject.run.method).rows == played else training_set.runs.first()
    method = run.method if run else next(name for name, known in METHODS.items() if known.rows == played)
    config = config_class(method)(**run.config) if run else subject.agent.training_config(method)
    config = config.with_overrides({"environment": training_set.stats["environment"]})
    assert isinstance(config, AgentConfig)  # noqa: S101  the method's own
    earnings = rewards.compare_success(subject.contest, held_out.rows, config, report)
    guards = skip("tasks are played, not answered", subject.agent, subject.task)
    return _judge(earnings, held_out, "success", guards, subject)


def _judge(earnings: rewards.Earnings, held_out: HeldOut, measure: str, guards: Guards, subject: Subject) -> Measured:
    verdict, groups = rewards.judge(earnings, measure, held_out.share, subject)
    measured = rewards.describe(earnings, guards.over(verdict), measure, subject.agent.gate_margin, guards)
    return replace(measured, report={**measured.report, **groups.report})


_MEASURES: dict[str, Callable[[Subject, TrainingSet, HeldOut, Report], Measured]] = {
    "preference": _preference,
    "reward": _rewards,
    "success": _success,
}
"""By ``RowKind.measure`` of the set."""

FIGURE: Final = "fresh_reward"
"""Where a report has ``reward_model`` (a name), ``mean`` and ``std`` (of the population, 0 to 1) and ``answers``."""
MOST_VERSIONS: Final = 20
"""The newest ones that a new reward model scores."""


def reward_fresh_answers(evaluation: Evaluation, report: Report) -> None:
    """What they are worth by the agent's newest reward model: one figure for all methods, which decides nothing. Adds it to
    the report that is stored, or where a reward model was evaluated, to those of the versions that are
    there. A reward model that is rejected or cannot be loaded scores nothing."""
    version = evaluation.version
    if version.is_reward_model:
        usable = evaluation.verdict != Evaluation.Verdict.REJECT
        # one of each of the newest versions that answer
        answering = version.agent.versions.exclude(run__method__in=scoring_methods()).order_by("-created_at")
        newest = (version.evaluations.filter(artifact=None).first() for version in answering[:MOST_VERSIONS])
        judge, judged = (version if usable else None), [evaluation for evaluation in newest if evaluation]
    else:
        trained = versions.list_trained(version.agent).exclude(stage=ModelVersion.Stage.REJECTED)
        judge, judged = trained.first(), [evaluation]
    answers = [(of_version, given) for of_version in judged if (given := _answers(of_version))]
    if judge is None or not answers:
        return
    report("stage", {"name": f"scoring fresh answers by {judge.name}"})
    try:
        scorer = leaf(SCORERS["reward_model"]).load(versions.weights_directory(judge))
        for of_version, given in answers:
            scores = [scorer.score(prompt, text) for prompt, text in given]
            if known := [score for score in scores if score is not None]:
                figures = {"mean": fmean(known), "std": pstdev(known), "answers": len(known)}
                of_version.report[FIGURE] = {"reward_model": judge.name, **figures}
                of_version.save(update_fields=["report"])
    except RatchetError as error:
        report("log", {"text": f"fresh answers are not scored by {judge.name}: {error}"})


def _answers(evaluation: Evaluation) -> list[tuple[Sequence[Message], str]]:
    """Whole prompts with the version's answers, less those whose prompt is no longer stored."""
    samples = (evaluation.report.get("guards") or {}).get("samples", [])
    texts = {sample["prompt_key"]: sample["new"]["answer"] for sample in samples if "prompt_key" in sample}
    agent = evaluation.version.agent
    stored = dict(agent.traces.filter(prompt_key__in=texts).values_list("prompt_key", "prompt"))
    return [(ask_agent(agent, prompt), texts[key]) for key, prompt in stored.items()]
