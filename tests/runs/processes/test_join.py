from pathlib import Path

import pytest

from rl.runs.processes.join import main


@pytest.mark.parametrize(
    ("arguments", "told"),
    [([], "python -m rl.runs.processes.join"), (["/nowhere", "x.yaml"], "no training waits in /nowhere")],
    ids=["nothing", "nowhere"],
)
def test_it_says_what_is_missing(capsys: pytest.CaptureFixture[str], arguments: list[str], told: str):
    assert main(arguments) == 2
    assert told in capsys.readouterr().err


def test_a_configuration_that_is_not_there_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "job.json").write_text("{}")
    assert main([str(tmp_path), "/no/such.yaml"]) == 2
    assert "there is no accelerate configuration /no/such.yaml" in capsys.readouterr().err
