"""Real files of the tiny model, scored by llama.cpp."""

from pathlib import Path

import pytest

from rl.base.errors import UsageError
from rl.base.export_records import ExportJob
from rl.base.measurements import PairScore
from rl.base.records import silent
from rl.evaluation import exported_file
from rl.evaluation.evaluate import evaluate
from rl.evaluation.measures.preference import SAMPLED, sample
from rl.export.gguf import export as gguf_export
from rl.export.llama_cpp import process as llama_process
from rl.models import Agent, Artifact, Evaluation, ModelVersion, TrainingSet
from tests.evaluation.conftest import PAIRS, TOO_LONG, pair
from tests.evaluation.pair_sets import pair_set, version_on

pytestmark = [pytest.mark.learn, pytest.mark.django_db]
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
    evaluation = exported_file.judge(version, file_of(version, gguf), training_set, silent)
    assert (evaluation.artifact.quantization, evaluation.pairs, evaluation.prompts) == ("f16", 12, 12)
    assert evaluation.accuracy == pytest.approx(weights.accuracy)
    assert evaluation.base_accuracy == pytest.approx(weights.base_accuracy)
    assert evaluation.verdict == weights.verdict
    assert evaluation.report["models"]["new"]["margin"]["value"] == pytest.approx(
        weights.report["models"]["new"]["margin"]["value"], abs=0.02
    )
    assert evaluation.report["reason"].startswith("The file at f16 holds what the weights promise: +0.0 points")
    assert Evaluation.objects.count() == 2  # the stored one was used


def test_weights_that_were_not_measured_are_measured_first(version, training_set, gguf):
    exported_file.judge(version, file_of(version, gguf), training_set, silent)
    assert [row.artifact is None for row in Evaluation.objects.order_by("created_at")] == [True, False]


def test_a_file_that_loses_too_much_is_held_back_and_a_larger_level_named(version, training_set, gguf, monkeypatch):
    wrong = lambda file, sequences, **options: [-99.0 * (n % 2 == 0) for n in range(len(sequences))]  # noqa: E731
    monkeypatch.setattr(llama_process, "token_log_probs", wrong)
    evaluation = exported_file.judge(version, file_of(version, gguf, level="q4_k_m"), training_set, silent)
    assert evaluation.verdict == "reject"
    assert evaluation.accuracy < evaluation.report["models"]["weights"]["accuracy"]["value"]
    assert "at most 3 are allowed; export a larger level, q5_0 for one." in evaluation.report["reason"]


def scores_with(right: int, of: int = 20) -> exported_file._Scores:
    def scores(count: int) -> list[PairScore]:
        return [PairScore(f"p{number}", 1.0 if number < count else -1.0, 0.0) for number in range(of)]

    rows = [{"prompt_key": f"p{number}"} for number in range(of)]
    return exported_file._Scores(rows, scores(right), scores(of), scores(of // 2), scores(of // 2))


@pytest.mark.parametrize(
    ("right", "margin", "message"),
    [
        (20, 0.0, ""),
        (19, 0.0, ""),
        (18, 0.0, "loses too much: -10.0 points against the weights that it was made from, on 20 prompts, at most 3"),
        (18, 0.08, ""),
        (17, 0.08, "at most 11 are allowed; export a larger level, q5_0 for one."),
    ],
)
def test_the_agents_margin_and_a_tolerance_may_be_lost_but_never_for_one_prompt(right, margin, message):
    loss, figures = exported_file._describe_loss("q4_k_m", scores_with(right), margin)
    assert message in loss
    assert bool(message) == bool(loss)
    assert f"{100 * (right - 20) / 20:+.1f} points" in figures


def test_a_file_that_says_no_numbers_is_held_back():
    broken = scores_with(20)
    broken.file[0] = PairScore("p0", float("nan"), 0.0)
    assert (
        exported_file._describe_loss("f32", broken, 0.0)[0] == "The file at f32 gives no finite score to 1 of 20 pairs."
    )
    assert exported_file._way_out("f32") == "there is no larger level: train again"


@pytest.mark.parametrize(
    ("method", "kind", "message"),
    [
        ("dpo", "onnx", "only whole GGUF files are"),
        ("prompts", "gguf", "is measured by what it answers"),
        ("agent", "gguf", "is measured by what it answers"),
    ],
)
def test_what_cannot_be_judged_is_told_with_the_reason(version, training_set, gguf, method, kind, message):
    training_set.method = method
    logged: list[str] = []
    file = file_of(version, gguf, kind)
    assert exported_file.judge(version, file, training_set, lambda event, values: logged.append(values["text"])) is None
    assert message in logged[0]
    assert not Evaluation.objects.exists()


def test_a_level_that_was_not_exported_is_refused_and_the_others_are_named(version, gguf):
    file = file_of(version, gguf)
    assert exported_file.find_file(version, "f16") == file
    with pytest.raises(
        UsageError, match=r"has no GGUF file at q2_k; there are: f16\. Export one: manage\.py export_model"
    ):
        exported_file.find_file(version, "q2_k")


def test_a_sample_is_chosen_by_what_the_pairs_say():
    rows = [pair(1, f"Answer {number}", "No") for number in range(300)]
    assert len(sample(rows)) == SAMPLED
    assert sample(rows).keys() == sample(rows[::-1]).keys()


def test_what_is_measured_by_right_answers_has_no_pairs_to_be_judged_by(version, training_set, gguf):
    evaluation = evaluate(version, training_set, silent)
    Evaluation.objects.filter(pk=evaluation.pk).update(report={"measure": "right"})
    told: list[str] = []
    judged = exported_file.judge(
        version, file_of(version, gguf), training_set, lambda event, values: told.append(values["text"])
    )
    assert (judged, Evaluation.objects.count()) == (None, 1)
    assert told[0].endswith("is measured by how many answers are right, not by pairs")
