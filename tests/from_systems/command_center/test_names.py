"""Python names with Command Center's arguments."""

import json
from pathlib import Path

import pytest

from rl.collect.importers import importer
from rl.from_systems import command_center
from rl.models import Agent, Feedback, Trace, TrainingRun, WaitingRating
from tests.collect.make_command_center import write_files

ENTRIES = [
    {"question_id": "q1", "scenario": "kpi", "fixture": "live", "rating": "up", "question": "Load?", "size": "hero"},
    {"question_id": "q1", "scenario": "trend", "fixture": "", "rating": "down", "question": "Load?"},
    {"question_id": "q2", "scenario": "kpi", "fixture": "live", "rating": "up", "question": "Why?"},
    {"question_id": "q2", "scenario": "kpi", "fixture": "daily", "rating": "down", "question": "Why?"},
    {"question_id": "q2", "scenario": "kpi", "fixture": "plain", "rating": None, "question": "Why?"},
]
DESCRIPTIONS = {"kpi": {"live": "each second", "weekly": "by week"}}


def test_every_name_is_there():
    for name in command_center.NAMES:
        assert getattr(command_center, name).__name__
    with pytest.raises(AttributeError):
        command_center.nothing  # noqa: B018


def test_pairs_are_built_from_dictionaries():
    (widgets,) = command_center.build_widget_dpo_pairs(ENTRIES, command_center.get_all_scenarios())
    assert json.loads(widgets.chosen)["widgets"][0]["scenario"] == "kpi"
    (fixtures,) = command_center.build_fixture_dpo_pairs(ENTRIES, DESCRIPTIONS, max_pairs_per_question=3)
    assert (fixtures.scenario, json.loads(fixtures.rejected)["fixtures"][0]["fixture"]) == ("kpi", "daily")
    for line in ("- live: each second", "- weekly: by week"):
        assert line in fixtures.prompt[1]["content"]
    assert len(command_center.build_combined_dpo_pairs(ENTRIES)) == 2
    assert len(command_center.get_all_scenarios()) == 21


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ({"scenario": "kpi", "rating": "up"}, "entry 1 has no question_id"),
        ({**ENTRIES[0], "size": "huge"}, "entry 1: "),
    ],
)
def test_an_entry_that_is_none_is_refused(entry: dict, problem: str):
    with pytest.raises(ValueError, match=problem):
        command_center.build_widget_dpo_pairs([entry], ["kpi"])


def test_pairs_survive_a_file(tmp_path: Path):
    pairs = command_center.build_combined_dpo_pairs(ENTRIES)
    command_center.pairs_to_jsonl(pairs, tmp_path / "pairs.jsonl")
    assert command_center.load_pairs_from_jsonl(tmp_path / "pairs.jsonl") == pairs


def test_a_dataset_has_two_sides_with_four_columns(db, data_dir, tmp_path: Path):
    files = write_files(tmp_path, questions=12)
    dataset = command_center.prepare_training_dataset("file", files.entries, files.ratings, val_split=0.4)
    train, validation = dataset["train"], dataset["validation"]
    assert train.column_names == ["prompt", "chosen", "rejected", "question_id"] == list(train[0])
    assert min(len(train), len(validation)) > 0
    with pytest.raises(ValueError, match="are needed"):
        command_center.prepare_training_dataset("file", files.entries, files.ratings, min_samples=9_999)
    importer("command_center")(Agent(name="selector"), files.entries, files.ratings)
    assert command_center.prepare_training_dataset(min_samples=5)["train"]
    assert command_center.get_fixture_descriptions()["kpi"]["kpi_live-sparkline"] == "kpi live sparkline"


@pytest.mark.learn
@pytest.mark.slow
def test_a_trainer_learns_goes_on_and_is_exported(db, data_dir, tiny_base: Path, tmp_path: Path):
    rows = [{"prompt": f"Question {n}?", "chosen": "yes", "rejected": "no", "question_id": str(n)} for n in range(8)]
    hyper = {"max_steps": 2, "save_steps": 1, "batch_size": 2, "gradient_accumulation": 1, "max_length": 64}
    trainer = command_center.CommandCenterDPOTrainer(hyper, base_model=str(tiny_base))
    result = trainer.train(rows, rows[:2], output_dir=tmp_path / "out")
    assert (result.success, result.train_samples, result.eval_samples, result.error_message) == (True, 8, 2, "")
    assert (Path(result.checkpoint_path) / "adapter_config.json").is_file()
    trainer.load_checkpoint(trainer.save_checkpoint(tmp_path / "copy"))
    assert trainer.model is not None
    wrong = trainer.train([{"prompt": "x"}], output_dir=tmp_path / "other")
    assert (wrong.success, "lacks 'chosen'" in wrong.error_message) == (False, True)
    assert not trainer.train(rows, output_dir=tmp_path / "out", resume_from_checkpoint=tmp_path / "copy").success
    made = command_center.export_to_ollama(result.checkpoint_path, None, None, "q8_0", tmp_path, register=False)
    assert (made.success, made.ollama_model_name, made.error_message) == (True, None, "")
    assert Path(made.gguf_path).is_file()
    missing = command_center.export_to_ollama(tmp_path / "nowhere", register=False)
    assert (missing.success, bool(missing.error_message)) == (False, True)


def test_every_process_has_the_learner_of_the_agent_with_widgets_while_it_learns(db, settings):
    settings.ENABLE_ONLINE_LEARNING = True
    Agent.objects.create(name="support-chat")
    selector = Agent.objects.create(name="selector")
    assert command_center.get_online_learner() is None
    widget = {"prompt": [{"role": "user", "content": "Load?"}], "response": "{}", "details": {"scenario": "kpi"}}
    Trace.objects.create(agent=selector, **widget)
    assert command_center.get_online_learner().agent == selector
    assert command_center.get_online_learner("Support-Chat").agent.name == "support-chat"
    command_center.shutdown_online_learner()
    assert command_center.get_online_learner() is None
    Agent.objects.update(online_learning=True)
    settings.ENABLE_ONLINE_LEARNING = False
    assert command_center.get_online_learner() is None


@pytest.mark.database
def test_the_learner_takes_feedback_on_entries_and_says_how_it_stands(db, tmp_path: Path, settings):
    settings.ENABLE_ONLINE_LEARNING = True
    assert command_center.get_online_learner() is None
    files = write_files(tmp_path, questions=3)
    agent = Agent(name="selector")
    importer("command_center")(agent, files.entries)
    own = command_center.init_online_learner(min_samples=2, retrain_interval_hours=6, auto_export=False)
    assert command_center.get_online_learner().agent == own.agent == agent
    assert [own.add_feedback({"entry_id": f"e0000{n}", "rating": "up"}) for n in (1, 2)] == [False, True]
    assert Feedback.objects.filter(agent=agent, source="command_center_page").count() == 2
    assert own.add_feedback({"entry_id": "unknown", "rating": "down", "tags": ["ugly"]})
    assert WaitingRating.objects.get().entry_id == "unknown"
    status = own.get_status()
    assert {**status, "reason": ""} == {
        "buffer_size": 2,
        "min_samples": 2,
        "is_training": False,
        "last_train_time": None,
        "train_count": 0,
        "should_retrain": True,
        "auto_export": False,
        "auto_deploy": False,
        "reason": "",
    }
    assert (own.trigger_retrain(), own.trigger_retrain()) == (True, False)
    assert TrainingRun.objects.get().agent == agent
    for wrong in ({"rating": "up"}, {"entry_id": "e00001", "rating": "meh"}, {"entry_id": "x" * 999, "rating": "up"}):
        with pytest.raises(ValueError, match=r"."):
            own.add_feedback(wrong)
    with pytest.raises(ValueError, match="has no meaning here"):
        command_center.init_online_learner(max_buffer_size=5)
    command_center.shutdown_online_learner()
    agent.refresh_from_db()
    assert (agent.online_learning, command_center.get_online_learner()) == (False, None)
