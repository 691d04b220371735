"""Real scoring with the tiny model; the database holds what a training run leaves there."""

import json
import shutil
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from statistics import fmean

import pytest
from transformers import AutoTokenizer

from rl.base.export_records import ExportJob
from rl.base.records import silent
from rl.config import TrainingConfig
from rl.config.guard_limits import GUARD_LIMITS
from rl.dataset_builder import is_held_out
from rl.evaluation.evaluate import evaluate, evaluate_checkpoint
from rl.export.hf import merge
from rl.models import Agent, Deployment, ModelVersion, TrainingRun, TrainingSet
from rl.versions import versions
from tests.evaluation.conftest import PAIRS, TOO_LONG, Row
from tests.evaluation.pair_sets import score_pairs, write_set
from tests.guard_limits import UNLIKELY_ALLOWED

pytestmark = [pytest.mark.learn, pytest.mark.django_db]
WITH_ONE_TOO_LONG = [PAIRS[0], TOO_LONG, *PAIRS[1:]]
MAX_LENGTH = 128
MakeVersion = Callable[..., ModelVersion]


@pytest.fixture
def make_version(agent: Agent, data_dir: Path, tiny_base: Path) -> MakeVersion:
    """``make_version("v1", adapter)``: a trained version, on the tiny base unless another is given."""

    agent.guard_limits = UNLIKELY_ALLOWED
    agent.save()

    def make(name: str, adapter: Path, base: Path = tiny_base) -> ModelVersion:
        version = ModelVersion.objects.create(agent=agent, name=name, base_model=str(base), feedback_count=4)
        config = TrainingConfig().with_overrides({"max_length": MAX_LENGTH}).as_dict()
        TrainingRun.objects.create(agent=agent, config=config, version=version, state=TrainingRun.State.SUCCEEDED)
        shutil.copytree(adapter, versions.version_directory(version) / "adapter")
        return version

    return make


def margins(base: Path, adapter: Path | None, rows: Sequence[Row] = PAIRS) -> list[float]:
    """Less those of the base model."""
    own, of_base = (
        [score.margin for score in score_pairs(str(base), weights, rows, max_length=MAX_LENGTH, report=silent) if score]
        for weights in (adapter, None)
    )
    return [margin - reference for margin, reference in zip(own, of_base, strict=True)]


def test_a_pair_with_too_long_a_prompt_is_counted_and_not_judged(agent, make_version, tiny_base, adapter):
    evaluation = evaluate(make_version("v1", adapter), write_set(agent, WITH_ONE_TOO_LONG), silent)
    expected = margins(tiny_base, adapter)
    assert (evaluation.pairs, evaluation.prompts, evaluation.report["unscored"]) == (3, 3, 1)
    assert evaluation.accuracy == pytest.approx(fmean(margin > 0 for margin in expected))
    worst = {example["prompt"]: example["margin"] for example in evaluation.report["worst"]}
    assert worst == {
        row["prompt"][-1]["content"]: pytest.approx(margin, abs=1e-3)
        for row, margin in zip(PAIRS, expected, strict=True)
    }
    assert evaluation.verdict == "undecided"


def test_it_is_judged_against_the_version_in_use(agent, make_version, tiny_base, adapter, other_adapter):
    champion = make_version("v1", other_adapter)
    Deployment.promote(champion)
    evaluation = evaluate(make_version("v2", adapter), write_set(agent, WITH_ONE_TOO_LONG), silent)
    assert (evaluation.against, evaluation.pairs, evaluation.report["unscored"]) == (champion, 3, 1)
    models = evaluation.report["models"]
    for name, of in (("new", adapter), ("base", None), ("current", other_adapter)):
        assert models[name]["margin"]["value"] == pytest.approx(fmean(margins(tiny_base, of)), abs=1e-3)


def test_a_version_in_use_on_another_base_leaves_out_what_is_too_long_for_either(
    agent, make_version, tiny_base, adapter, other_adapter, tmp_path
):
    short = shutil.copytree(tiny_base, tmp_path / "short")
    config = json.loads((short / "config.json").read_text())
    room = len(AutoTokenizer.from_pretrained(short).apply_chat_template(PAIRS[1]["prompt"])["input_ids"])
    (short / "config.json").write_text(json.dumps(config | {"max_position_embeddings": room}))
    Deployment.promote(make_version("v1", other_adapter, short))
    evaluation = evaluate(make_version("v2", adapter), write_set(agent, WITH_ONE_TOO_LONG), silent)
    both = [PAIRS[0], PAIRS[2]]
    assert (evaluation.pairs, evaluation.report["unscored"]) == (2, 2)
    assert {example["chosen"] for example in evaluation.report["worst"]} == {
        row["chosen"][0]["content"] for row in both
    }
    new, current = (evaluation.report["models"][name]["margin"]["value"] for name in ("new", "current"))
    assert new == pytest.approx(fmean(margins(tiny_base, adapter, both)), abs=1e-3)
    assert current == pytest.approx(fmean(margins(short, other_adapter, both)), abs=1e-3)


def keys(agent: Agent, low: float, high: float, count: int) -> list[str]:
    """Prompt keys that are held out at ``high`` and learned from at ``low``."""
    candidates = (f"key {number}" for number in range(10_000))
    fitting = (k for k in candidates if is_held_out(agent.name, k, high) and not is_held_out(agent.name, k, low))
    return list(islice(fitting, count))


@pytest.mark.parametrize("learned_by", ["new", "current"])
def test_prompts_that_one_of_the_versions_has_learned_from_are_not_held_against_the_other(
    agent, make_version, adapter, other_adapter, learned_by
):
    new, champion = make_version("v2", adapter), make_version("v1", other_adapter)
    Deployment.promote(champion)
    earlier = TrainingSet.objects.create(
        agent=agent, method="dpo", content_hash="1" * 64, train_rows=9, heldout_rows=1, feedback_count=20, val_split=0.1
    )
    version = new if learned_by == "new" else champion
    TrainingRun.objects.filter(version=version).update(training_set=earlier)
    clean, learned = keys(agent, 0, 0.1, 2), keys(agent, 0.1, 0.2, 1)
    rows = [
        {**row, "prompt_key": key, "split_key": key}
        for row, key in zip(PAIRS, [clean[0], *learned, clean[1]], strict=True)
    ]
    evaluation = evaluate(new, write_set(agent, rows), silent)
    assert (evaluation.pairs, evaluation.report["learned"]) == (2, 1)
    shown = {example["chosen"] for example in evaluation.report["worst"]}
    assert shown == {row["chosen"][0]["content"] for row in rows if row["prompt_key"] in clean}


def test_what_else_the_prompts_say_stands_beside_the_interval(agent, make_version, adapter):
    agent.gate_margin = 0.02
    report = evaluate(make_version("v1", adapter), write_set(agent, PAIRS), silent).report
    assert report["margin"] == 0.02
    assert len(report["sampled"]) == 3
    assert {rail["name"] for rail in report["guards"]["rails"]} == GUARD_LIMITS.keys()


def test_a_guard_rail_that_is_broken_rejects_and_one_that_is_off_does_not(agent, make_version, adapter):
    version, training_set = make_version("v1", adapter), write_set(agent, PAIRS)
    Agent.objects.filter(pk=agent.pk).update(guard_limits={**UNLIKELY_ALLOWED, "kl_to_base": 1e-9})
    rejected = evaluate(ModelVersion.objects.get(pk=version.pk), training_set, silent)
    assert rejected.verdict == "reject"
    assert rejected.report["reason"].startswith("A guard rail is broken: kl_to_base (")
    Agent.objects.filter(pk=agent.pk).update(guard_limits={**UNLIKELY_ALLOWED, "kl_to_base": None})
    assert evaluate(ModelVersion.objects.get(pk=version.pk), training_set, silent).verdict == "undecided"


def test_one_prompt_is_measured_and_decides_nothing(agent, make_version, tiny_base, adapter):
    evaluation = evaluate(make_version("v1", adapter), write_set(agent, [PAIRS[0], PAIRS[0]]), silent)
    assert (evaluation.pairs, evaluation.prompts, evaluation.verdict) == (2, 1, "undecided")
    assert evaluation.report["models"]["new"]["margin"] is None
    assert evaluation.report["reason"].startswith(
        "Nobody can tell yet, and people have to pick: 1 prompt held out, and at least 8 are needed"
    )


@pytest.mark.parametrize("rows", [[], [TOO_LONG]])
def test_without_a_pair_to_score_nothing_is_known(agent, make_version, adapter, rows):
    evaluation = evaluate(make_version("v1", adapter), write_set(agent, rows), silent)
    assert (evaluation.pairs, evaluation.prompts, evaluation.verdict) == (0, 0, "undecided")
    assert (evaluation.accuracy, evaluation.base_accuracy, evaluation.against_accuracy) == (0.5, 0.5, 0.5)
    assert (evaluation.report["unscored"], evaluation.report["worst"]) == (len(rows), [])


def test_a_checkpoint_is_measured_in_the_same_way(agent, data_dir, tiny_base, adapter):
    Agent.objects.filter(pk=agent.pk).update(context_length=MAX_LENGTH, guard_limits=UNLIKELY_ALLOWED)
    agent.refresh_from_db()
    write_set(agent, WITH_ONE_TOO_LONG)
    report = evaluate_checkpoint(agent, adapter, silent)
    assert (report["pairs"], report["unscored"], report["verdict"]) == (3, 1, "undecided")
    assert report["models"]["new"]["margin"]["value"] == pytest.approx(fmean(margins(tiny_base, adapter)), abs=1e-3)


def test_a_whole_model_is_measured_beside_the_model_that_it_was_trained_from(
    agent, data_dir, tiny_base, adapter, tmp_path
):
    job = ExportJob(base_model=str(tiny_base), adapter_dir=adapter, output_dir=tmp_path, name="tiny")
    whole = merge.export(job, silent).path
    (whole / "ratchet.json").write_text(json.dumps({"base_model": str(tiny_base)}))
    write_set(agent, PAIRS)
    report = evaluate_checkpoint(agent, whole, silent)
    for name, expected in (("new", margins(tiny_base, adapter)), ("base", margins(tiny_base, None))):
        assert report["models"][name]["margin"]["value"] == pytest.approx(fmean(expected), abs=1e-3)
