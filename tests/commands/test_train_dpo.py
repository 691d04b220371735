import json
import signal

import pytest
from django.core.management import CommandError, call_command

from rl.models import Agent
from tests.commands.ends import ends_of
from tests.commands.site import TRAIN, Site, kill_session

pytestmark = pytest.mark.process


def started(site: Site, *options: str, step: int = 1):
    """A training process that has passed ``step``."""
    process = site.fork(*TRAIN, *options)
    site.wait_for(f"SELECT step FROM rl_trainingrun WHERE step >= {step}")
    return process


@pytest.mark.slow
def test_it_prints_one_json_document_and_progress_elsewhere(trained_site):
    site, result = trained_site
    document = json.loads(result.stdout)
    assert document["version"].startswith("v")
    assert document["evaluation"]["pairs"] > 10
    assert set(document["evaluation"]["models"]) == {"new", "base", "current"}
    assert "training" in result.stderr
    (state,) = site.query("SELECT state FROM rl_trainingrun")
    assert state == ("succeeded",)


@pytest.mark.slow
def test_a_run_killed_with_sigkill_resumes_to_the_same_losses(site, trained_site):
    whole, _ = trained_site
    kill_session(started(site, step=5))
    site.run(*TRAIN, "--resume")
    assert len(site.losses()) > 10
    assert site.losses() == whole.losses()
    assert site.query("SELECT state, attempt FROM rl_trainingrun") == [("succeeded", 2)]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_it_at_the_next_step_with_a_checkpoint(site, number):
    process = started(site)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert f"stopped by {number.name}" in errors
    assert site.query("SELECT state FROM rl_trainingrun") == [("cancelled",)]
    ((step,),) = site.query("SELECT MAX(step) FROM rl_metricpoint")
    assert (site.data / "runs" / "1" / f"checkpoint-{step}" / "adapter_model.safetensors").exists()


@pytest.mark.slow
def test_a_second_run_of_the_same_agent_is_refused_and_a_cancel_in_the_database_stops_the_first(site):
    process = started(site)
    assert "in progress" in site.run(*TRAIN, expect=1).stderr
    assert process.returncode is None
    site.change("UPDATE rl_trainingrun SET cancel_requested = 1")
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert site.query("SELECT state, error FROM rl_trainingrun") == [("cancelled", "run 1: cancelled")]


def test_the_dry_run_says_what_would_happen_and_writes_nothing(site):
    files = sorted(site.data.rglob("*"))
    document = site.json(*TRAIN, "--dry-run")
    assert document["data"]["train_rows"] > 50
    assert document["data"]["skipped"]
    assert document["tokens"]["measured"] is True
    assert document["tokens"]["prompt"]["max"] >= document["tokens"]["prompt"]["median"] > 0
    assert document["estimate"]["steps"] > 10
    assert document["estimate"]["peak_memory_bytes"] > 10**8
    assert site.query("SELECT COUNT(*) FROM rl_trainingrun") == [(0,)]
    assert [file for file in sorted(site.data.rglob("*")) if "sqlite3" not in file.name] == [
        file for file in files if "sqlite3" not in file.name
    ]
    assert document["estimate"]["measured"] is True
    assert {"start-up", "reference", "steps", "evaluation", "fresh answers"} <= set(document["estimate"]["parts"])


def test_the_dry_run_prints_tables_for_people(site):
    output = site.run(*TRAIN, "--dry-run").stdout
    for words in ("rows to train on", "Left out", "Tokens", "optimiser steps", "memory"):
        assert words in output


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--agent", "nobody"), "unknown agent 'nobody'"),
        (("--agent", "support-chat", "--epochs", "-1"), "epochs must be a number"),
        (("--agent", "support-chat", "--val-split", "2"), "val_split must be a number"),
        (("--agent", "support-chat", "--source", "file"), "--source file needs --data-file"),
        (("--agent", "support-chat", "--resume"), "has no stopped run to resume"),
        ((), "no agent has ratings yet"),
    ],
)
def test_a_wrong_option_is_refused_in_one_line(agent: Agent, data_dir, options, complaint):
    with pytest.raises(CommandError, match=complaint) as refusal:
        call_command("train_dpo", *options)
    assert refusal.value.returncode == 2
    assert "\n" not in str(refusal.value)


def test_what_cannot_be_trained_exits_with_its_code_and_no_traceback_before_anything_is_loaded(site, tmp_path):
    broken = tmp_path / "exhaustive_data.json"
    broken.write_text('{"run_id": "x", "entries": [{"entry_id": "e1",')
    refused = {
        ("--min-samples", "5000"): (3, ("5000 are needed", "more rating")),
        ("--config", "smal_gpu"): (2, ("invalid choice",)),
        ("--base-model", str(tmp_path)): (2, ("config.json is missing",)),
        ("--source", "file", "--data-file", str(broken), "--pair-type", "both"): (2, (str(broken),)),
    }
    ends = ends_of(site, *[(*TRAIN, *options) for options in refused])
    for (code, told), (expected, complaints) in zip(ends, refused.values(), strict=True):
        assert code == expected, told
        assert all(complaint in told for complaint in complaints), told
        assert "Traceback" not in told
    assert not list((site.data / "training_sets").glob("*"))


@pytest.mark.slow
def test_it_trains_from_command_center_files_without_importing_them(site, tmp_path):
    from tests.collect.make_command_center import write_files

    files = write_files(tmp_path, questions=20)
    document = site.json(
        "train_dpo",
        "--agent",
        "support-chat",
        "--source",
        "file",
        "--data-file",
        str(files.entries),
        "--ratings-file",
        str(files.ratings),
        "--pair-type",
        "both",
        "--epochs",
        "0.2",
        "--max-length",
        "1024",
        "--output-dir",
        str(tmp_path / "out"),
    )
    assert document["steps"] > 0
    assert (tmp_path / "out" / "adapter" / "adapter_model.safetensors").exists()
    assert site.query("SELECT COUNT(*) FROM rl_trace WHERE source = 'command_center'") == [(0,)]
