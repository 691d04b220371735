"""Alice and Bob stay; Charlie is forgotten."""

import json
import stat
from pathlib import Path
from uuid import uuid4

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.utils import timezone

from rl import dataset_builder
from rl.base.errors import RunConflict
from rl.collect.feedback import write
from rl.forgetting import forget as forgetting
from rl.forgetting import receipts
from rl.forgetting.forget import forget, preview
from rl.forgetting.records import find_person
from rl.lm.score_folder import score_folder
from rl.models import (
    Agent,
    AnswerPair,
    Artifact,
    AuditEvent,
    Deployment,
    Evaluation,
    Feedback,
    FollowUpLabel,
    LabelModel,
    ModelVersion,
    Quarantine,
    Trace,
    TrainingRun,
    TrainingSet,
    WaitingRating,
)
from rl.serving.gateway import pending
from tests.conftest import make_trace

pytestmark = pytest.mark.django_db
ONE = dataset_builder.DataOptions(min_samples=1, val_split=0)
CHARLIE = "user:charlie"


def rate(trace: Trace, value: float, rater: str) -> None:
    write.rate(trace, rater=rater, scale="thumb", value=value, source="test")


@pytest.fixture
def talked(agent: Agent, data_dir: Path, charlie) -> Agent:
    """Three prompts that all rated, one that Charlie asked; he compared, corrected, and took one rating back."""
    for number in range(3):
        for value in (1, 0):
            answer = make_trace(agent, f"Question {number}?", f"Answer {number} is {'good' if value else 'bad'}.")
            for rater in ("user:alice", CHARLIE, "user:bob"):
                rate(answer, value, rater)
    own = make_trace(agent, "Why does Charlie cough?", "He smokes.", unit=CHARLIE, session_id=f"try-{charlie.pk}-1")
    other = make_trace(agent, "Why does Charlie cough?", "It is cold.", source="second_answer")
    AnswerPair.objects.create(agent=agent, left=own, right=other, origin="second")
    rate(own, 0, "user:alice")
    write.compare(own, other, choice="right", rater=CHARLIE, source="test")
    write.correct(answer, text="Charlie's own words.", rater=CHARLIE, source="test")
    rating = write.current_rating(answer, CHARLIE)
    write.retract(rating, rater=CHARLIE, source="test")
    WaitingRating.objects.create(agent=agent, entry_id="x", rater=CHARLIE, value=1, rated_at=rating.rated_at)
    Quarantine.objects.create(agent=agent, rater=CHARLIE, reason="fast")
    return agent


@pytest.fixture
def learned(talked: Agent) -> ModelVersion:
    """A version of a run that read everything."""
    frozen = dataset_builder.freeze(talked, ONE)
    version = ModelVersion.objects.create(agent=talked, name="v1", base_model="tiny", feedback_count=1)
    run = TrainingRun.objects.create(
        agent=talked, method="dpo", training_set=frozen, version=version, state="succeeded", options={}
    )
    folder = Path(str(run.directory))
    (folder / "checkpoint-2").mkdir(parents=True)
    adapter = run.directory.parents[1] / "models" / talked.name / "v1" / "adapter"
    adapter.mkdir(parents=True)
    Artifact.objects.create(
        version=version, kind="adapter", path=f"models/{talked.name}/v1/adapter", size_bytes=1, sha256="0" * 64
    )
    samples = [{"prompt": "Why does Charlie cough?", "answer": "x"}, {"prompt": "Question 1?", "answer": "y"}]
    Evaluation.objects.create(
        version=version,
        training_set=frozen,
        pairs=1,
        prompts=1,
        accuracy=1,
        base_accuracy=1,
        against_accuracy=1,
        verdict="undecided",
        report={"guards": {"samples": samples}},
    )
    return version


def everything() -> str:
    """All rows that could hold words or names, as text."""
    rows = [*Feedback.objects.values(), *Trace.objects.values(), *Evaluation.objects.values("report")]
    return " ".join(map(str, [*rows, *WaitingRating.objects.values(), *Quarantine.objects.values()]))


@pytest.mark.database
def test_what_they_said_and_wrote_is_gone_and_what_others_left_stays(learned):
    others = Feedback.objects.filter(rater__in=["user:alice", "user:bob"], trace__unit="").count()
    receipt = forget(find_person(CHARLIE))
    assert "harlie" not in everything()
    assert Feedback.objects.count() == others == 12
    assert Trace.objects.count() == 6
    assert Evaluation.objects.get().report["guards"]["samples"] == [{"prompt": "Question 1?", "answer": "y"}]
    assert receipt["deleted"] | {"Feedback": 0} == {
        "AnswerPair": 1,
        "Feedback": 0,
        "Quarantine": 1,
        "Trace": 2,
        "TrainingSetTrace": 2,
        "WaitingRating": 1,
        "examples of Evaluation": 1,
    }
    assert receipt["deleted"]["Feedback"] == 10


@pytest.mark.database
def test_duels_about_their_question_are_gone_too_and_others_stay(talked: Agent):
    version = ModelVersion.objects.create(agent=talked, name="v1", base_model="tiny", feedback_count=1)
    for question in ("Why does Charlie cough?", "Question 0?"):
        sides = [make_trace(talked, question, text, source="duel") for text in ("One.", "Two.")]
        AnswerPair.objects.create(agent=talked, left=sides[0], right=sides[1], origin="duel", version=version)
    forget(find_person(CHARLIE))
    assert "harlie" not in everything()
    assert [pair.left.question for pair in AnswerPair.objects.all()] == ["Question 0?"]


def test_a_dry_run_says_the_same_and_does_nothing(learned, data_dir):
    before = everything()
    seen = preview(find_person(CHARLIE))
    assert everything() == before
    assert not (data_dir / "forgotten").exists()
    assert seen["deleted"] == forget(find_person(CHARLIE))["deleted"]


@pytest.mark.database
def test_the_receipt_names_what_learned_and_not_who(learned, data_dir):
    receipt = forget(find_person(CHARLIE))
    frozen = TrainingSet.objects.get(runs__version=learned)
    assert [row["id"] for row in receipt["uses"]["training_sets"]] == [str(frozen.pk)]
    assert [row["version"] for row in receipt["uses"]["versions"]] == ["v1"]
    path = data_dir / "forgotten" / receipt["receipt"]
    assert json.loads(path.read_text()) == receipt
    assert "harlie" not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    event = AuditEvent.objects.get(action="forgot")
    assert "harlie" not in f"{event.target} {event.details}"
    assert event.details["versions"] == ["support-chat v1"]


def test_a_clean_run_is_queued_once(learned):
    [row] = forget(find_person(CHARLIE))["retrain"]
    assert TrainingRun.objects.get(pk=row["run"]).state == TrainingRun.State.QUEUED
    TrainingRun.objects.filter(pk=row["run"]).update(state="succeeded")
    [again] = forget(find_person(CHARLIE))["retrain"]
    assert (again["run"], again["reason"]) == (row["run"], "queued before")


@pytest.mark.database
def test_without_enough_data_no_run_is_queued_and_the_receipt_says_why(learned):
    Feedback.objects.filter(rater__in=["user:alice", "user:bob"]).delete()
    assert forget(find_person(CHARLIE))["retrain"] == [
        {"agent": "support-chat", "run": None, "reason": "what is left gives no row to learn from"}
    ]


@pytest.mark.database
def test_files_that_hold_it_are_named_and_deleted_when_asked(learned, data_dir):
    frozen, run = TrainingSet.objects.get(), learned.run
    kept = forget(find_person(CHARLIE), retrain=False)["files"]["kept"]
    assert set(kept) == {f"training_sets/{frozen.pk}", f"runs/{run.pk}", "models/support-chat/v1"}
    gone = forget(find_person(CHARLIE), delete_files=True, retrain=False)["files"]
    assert (set(gone["deleted"]), gone["kept"]) == (set(kept), {})
    assert not any((data_dir / path).exists() for path in kept)
    assert not learned.artifacts.exists()
    assert forget(find_person(CHARLIE), delete_files=True, retrain=False)["files"] == {"deleted": [], "kept": {}}


def test_what_models_made_of_answers_is_gone_whoever_wrote_them(learned, data_dir):
    score_folder().mkdir()
    (score_folder() / "0123").write_bytes(b"digests and numbers")
    preview(find_person(CHARLIE))
    assert score_folder().exists()
    assert forget(find_person(CHARLIE), retrain=False)["files"]["deleted"] == ["answer_scores"]
    assert not score_folder().exists()


def test_a_version_in_use_stays_until_another_is(learned, data_dir):
    Deployment.promote(learned)
    files = forget(find_person(CHARLIE), delete_files=True, retrain=False)["files"]
    assert files["kept"].keys() == {"models/support-chat/v1"}
    assert "put another version in its place" in files["kept"]["models/support-chat/v1"]
    assert learned.artifacts.exists()


def test_weights_that_a_version_in_use_shares_stay_too(learned: ModelVersion, data_dir: Path):
    words = {"instruction": "Be brief.", "weights": learned, "base_model": "tiny", "feedback_count": 1}
    Deployment.promote(ModelVersion.objects.create(agent=learned.agent, name="v2", **words))
    receipt = forget(find_person(CHARLIE), delete_files=True, retrain=False)
    assert [row["version"] for row in receipt["uses"]["versions"] if row["in_use"]] == ["v1", "v2"]
    assert "models/support-chat/v1" in receipt["files"]["kept"]
    assert learned.artifacts.exists()


@pytest.mark.database
def test_what_was_interrupted_after_the_database_is_finished_by_the_next(learned, data_dir, monkeypatch):
    monkeypatch.setattr(forgetting, "sweep", lambda *args, **options: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        forget(find_person(CHARLIE), delete_files=True)
    assert not Feedback.objects.filter(rater=CHARLIE).exists()
    monkeypatch.undo()
    receipt = forget(find_person(CHARLIE), delete_files=True)
    assert f"training_sets/{TrainingSet.objects.first().pk}" in receipt["files"]["deleted"]
    assert receipt["retrain"][0]["reason"] == "queued"


@pytest.mark.database
def test_what_fails_in_the_database_leaves_everything(learned, monkeypatch):
    before = everything()
    monkeypatch.setattr(receipts, "write", lambda *args: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        forget(find_person(CHARLIE))
    assert everything() == before


def test_a_run_at_work_is_waited_for(learned):
    TrainingRun.objects.create(agent=learned.agent, method="dpo", state="running")
    with pytest.raises(RunConflict, match="is at work and may be learning from them"):
        forget(find_person(CHARLIE))
    assert Feedback.objects.filter(rater=CHARLIE).exists()


def test_answers_on_their_way_into_the_database_go_too(agent, data_dir):
    pending.folder().mkdir(parents=True)
    theirs, others = uuid4(), uuid4()
    for key, unit in ((theirs, CHARLIE), (others, "user:alice")):
        document = {"agent_id": agent.pk, "unit": unit, "session_id": ""}
        pending.path_of(key).with_suffix(".json.broken").write_text(json.dumps(document))
    receipt = forget(find_person(CHARLIE))
    assert receipt["files"]["deleted"] == [f"gateway/pending/{theirs}.json.broken"]
    assert [path.name for path in pending.folder().iterdir()] == [f"{others}.json.broken"]


@pytest.mark.database
def test_only_what_they_left_at_one_agent(talked):
    elsewhere = Agent.objects.create(name="other")
    rate(make_trace(elsewhere), 1, CHARLIE)
    forget(find_person(CHARLIE, agent=talked))
    assert [event.agent for event in Feedback.objects.filter(rater=CHARLIE)] == [elsewhere]


@pytest.mark.database
def test_the_command_tells_it_in_words_and_in_json(learned, capsys):
    call_command("forget_person", CHARLIE, "--dry-run")
    text = capsys.readouterr().out
    assert "would be deleted" in text
    assert "Version v1 of support-chat learned from it (not in use)." in text
    call_command("forget_person", CHARLIE, "--also", "device:7", "--no-retrain", "--json")
    document = json.loads(capsys.readouterr().out)
    assert (document["state"], len(document["person"]), document["retrain"]) == ("done", 2, [])
    with pytest.raises(CommandError, match="must not be empty"):
        call_command("forget_person", " ")
    call_command("forget_person", CHARLIE, "--dry-run")  # again is no mistake


@pytest.mark.parametrize("name", ["user:charly", "charlie", "device:charlie"])
def test_a_name_that_nobody_has_is_said_with_the_nearest_one(talked, name, data_dir):
    before = everything()
    with pytest.raises(CommandError, match="nobody is known as .*did you mean .*user:charlie") as caught:
        call_command("forget_person", name)
    assert caught.value.returncode == 2
    assert everything() == before
    assert not receipts.folder().exists()


def test_a_name_that_somebody_has_elsewhere_is_nobody_at_this_agent(talked):
    Agent.objects.create(name="other")
    with pytest.raises(CommandError, match="nobody is known as 'device:9' at other"):
        call_command("forget_person", "device:9", "--agent", "other")


def test_what_waits_for_its_answer_is_somebody(talked, data_dir):
    WaitingRating.objects.create(entry_id="e1", rater="device:9", value=1, rated_at=timezone.now())
    call_command("forget_person", "device:9", "--no-retrain")
    assert not WaitingRating.objects.filter(rater="device:9").exists()


def test_what_was_heard_in_their_messages_is_gone_and_the_model_that_learned_from_them_is_named(agent: Agent, data_dir):
    figures = {"labels": 20, "heldout_labels": 20, "heldout_accuracy": 0.8, "majority_share": 0.5}
    before = LabelModel.objects.create(agent=agent, reads="follow_up", **figures)
    theirs, message = (make_trace(agent, text, "A.", unit=CHARLIE) for text in ("Where?", "No, shorter."))
    model = LabelModel.objects.create(agent=agent, reads="follow_up", **figures)
    own = make_trace(agent, "And mine?", "B.", unit="user:alice")
    for trace, later in ((theirs, message), (own, own)):
        FollowUpLabel.objects.create(trace=trace, next_trace=later, label_model=model, good=False, confidence=0.8)
    receipt = forget(find_person(CHARLIE))
    assert receipt["deleted"] == {"FollowUpLabel": 1, "Trace": 2}
    assert list(FollowUpLabel.objects.values_list("trace", flat=True)) == [own.pk]
    assert receipt["uses"]["label_models"] == [model.pk] != [before.pk]
