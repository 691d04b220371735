"""Real files of the tiny model, scored by llama.cpp."""

from __future__ import annotations

from pathlib import Path

import pytest

from rl.base.errors import UsageError
from rl.base.export_records import ExportJob
from rl.base.records import PairScore, silent
from rl.evaluation import artifact
from rl.evaluation.evaluate import evaluate
from rl.evaluation.measures.preference import SAMPLED, sample
from rl.export.gguf import export as gguf_export
from rl.export.llama_cpp import process as llama_process
from rl.models import Agent, Artifact, Evaluation, ModelVersion, TrainingSet
from tests.evaluation.conftest import PAIRS, TOO_LONG, pair
from tests.evaluation.pair_sets import pair_set, version_on

pytestmark = pytest.mark.django_db
ROWS = [TOO_LONG, *PAIRS, *(pair(1 + number % 5, f"Answer {number}.", f"Sorry {number}!") for number in range(9))]


@pytest.fixture(scope="module")
def gguf(tiny_base: Path, adapter: Path, tmp_path_factory) -> Path:
    job = ExportJob(str(tiny_base), adapter, tmp_path_factory.mktemp("gguf"), "tiny", "f16")
    return gguf_export.export(job, silent).path


@pytest.fixture
def version(agent: Agent, data_dir: Path, tiny_base: Path, adapter: Path) -> ModelVersion:
    return version_on(agent, tiny_base, adapter)


@pytest.fixture
def training_set(agent: Agent, data_dir: Path) -> TrainingSet:
    return pair_set(agent, ROWS)


def file_of(version: ModelVersion, path: Path, kind: str = "gguf", level: str = "f16") -> Artifact:
    return Artifact.objects.create(
        version=version, kind=kind, quantization=level, path=str(path), size_bytes=1, sha256="0" * 64
    )


def test_the_file_scores_the_pairs_that_the_weights_scored_and_agrees(version, training_set, gguf):
    weights = evaluate(version, training_set, silent)
    found = artifact.judge(version, file_of(version, gguf), training_set, silent)
    assert (found.artifact.quantization, found.pairs, found.prompts) == ("f16", 12, 12)
    assert found.accuracy == pytest.approx(weights.accuracy)
    assert found.base_accuracy == pytest.approx(weights.base_accuracy)
    assert found.verdict == weights.verdict
    assert found.report["models"]["new"]["margin"]["value"] == pytest.approx(
        weights.report["models"]["new"]["margin"]["value"], abs=0.02
    )
    assert found.report["reason"].startswith("The file at f16 holds what the weights promise: +0.0 points")
    assert Evaluation.objects.count() == 2  # the stored one was used


def test_weights_that_were_not_measured_are_measured_first(version, training_set, gguf):
    artifact.judge(version, file_of(version, gguf), training_set, silent)
    assert [row.artifact is None for row in Evaluation.objects.order_by("created_at")] == [True, False]


def test_a_file_that_loses_too_much_is_held_back_and_a_larger_level_named(version, training_set, gguf, monkeypatch):
    wrong = lambda file, sequences, **options: [-float(n % 2 == 0) for n in range(len(sequences))]  # noqa: E731
    monkeypatch.setattr(llama_process, "token_log_probs", wrong)
    found = artifact.judge(version, file_of(version, gguf, level="q4_k_m"), training_set, silent)
    assert (found.accuracy, found.verdict, found.ratings_needed) == (0, "reject", None)
    assert "at most 3 are allowed; export a larger level, q5_k_m for one." in found.report["reason"]


def scored(right: int, of: int = 20) -> artifact._Scored:
    def scores(count: int) -> list[PairScore]:
        return [PairScore(f"p{number}", 1.0 if number < count else -1.0, 0.0) for number in range(of)]

    rows = [{"prompt_key": f"p{number}"} for number in range(of)]
    return artifact._Scored(rows, scores(right), scores(of), scores(of // 2), scores(of // 2))


@pytest.mark.parametrize(
    ("right", "margin", "told"),
    [
        (20, 0.0, ""),
        (19, 0.0, ""),
        (18, 0.0, "loses too much: -10.0 points against the weights that it was made from, on 20 prompts, at most 3"),
        (18, 0.08, ""),
        (17, 0.08, "at most 11 are allowed; export a larger level, q5_k_m for one."),
    ],
)
def test_the_agents_margin_and_a_tolerance_may_be_lost_but_never_for_one_prompt(right, margin, told):
    lost, figures = artifact._lost("q4_k_m", scored(right), margin)
    assert told in lost
    assert bool(told) == bool(lost)
    assert f"{100 * (right - 20) / 20:+.1f} points" in figures


def test_a_file_that_is_worse_than_the_version_in_use_beyond_chance_is_held_back():
    weak = scored(10)
    weak = artifact._Scored(weak.rows, weak.file, weak.file, weak.base, scored(20).weights)
    assert artifact._lost("q8_0", weak, 0.0)[0].startswith(
        "The file at q8_0 is worse than the version in use: +0.0 points"
    )


def test_a_file_that_says_no_numbers_is_held_back():
    broken = scored(20)
    broken.file[0] = PairScore("p0", float("nan"), 0.0)
    assert artifact._lost("f32", broken, 0.0)[0] == "The file at f32 gives no finite score to 1 of 20 pairs."
    assert artifact._way_out("f32") == "there is no larger level: train again"


@pytest.mark.parametrize(
    ("method", "kind", "told"),
    [
        ("dpo", "onnx", "only whole GGUF files are"),
        ("prompts", "gguf", "is measured by what it answers"),
        ("agent", "gguf", "is measured by what it answers"),
        ("kto", "gguf", "answers are to different prompts"),
    ],
)
def test_what_cannot_be_judged_is_told_with_the_reason(version, training_set, gguf, method, kind, told):
    training_set.method = method
    logged: list[str] = []
    file = file_of(version, gguf, kind)
    assert artifact.judge(version, file, training_set, lambda event, values: logged.append(values["text"])) is None
    assert told in logged[0]
    assert not Evaluation.objects.exists()


def test_a_level_that_was_not_exported_is_refused_and_the_others_are_named(version, gguf):
    file = file_of(version, gguf)
    assert artifact.exported(version, "f16") == file
    with pytest.raises(
        UsageError, match=r"has no GGUF file at q2_k; there are: f16\. Export one: manage\.py export_model"
    ):
        artifact.exported(version, "q2_k")


def test_a_sample_is_chosen_by_what_the_pairs_say():
    rows = [pair(1, f"Answer {number}", "No") for number in range(300)]
    assert len(sample(rows)) == SAMPLED
    assert sample(rows).keys() == sample(rows[::-1]).keys()
