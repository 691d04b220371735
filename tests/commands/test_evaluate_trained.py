"""evaluate_model on a version that was really trained."""

import json
from pathlib import Path

import pytest

from tests.commands.ends import ends_of
from tests.commands.site import Site

pytestmark = [pytest.mark.process, pytest.mark.slow]


@pytest.fixture(scope="module")
def trained(trained_site: tuple[Site, object], tmp_path_factory: pytest.TempPathFactory) -> Site:
    return trained_site[0].copy(tmp_path_factory.mktemp("trained") / "data")


def adapter(site: Site) -> Path:
    return next((site.data / "models" / "support-chat").glob("v*/adapter"))


def test_a_version_is_measured_beside_its_base(trained, tmp_path):
    report = tmp_path / "results.json"
    document = trained.json("evaluate_model", "--agent", "support-chat", "--compare-base", "--output", str(report))
    assert json.loads(report.read_text()) == document
    models = document["models"]
    assert models["new"]["accuracy"]["value"] > 0.85 > 0.65 > models["base"]["accuracy"]["value"]
    assert models["new"]["accuracy"]["low"] < models["new"]["accuracy"]["value"]
    assert document["verdict"] == "promote"
    assert len(document["worst"]) == 10
    assert set(document["worst"][0]) == {"margin", "prompt", "chosen", "rejected"}


def test_a_checkpoint_is_measured_like_a_version(trained):
    document = trained.json(
        "evaluate_model", "--agent", "support-chat", "--checkpoint", str(adapter(trained)), "--compare-base"
    )
    assert document["models"]["new"]["accuracy"]["value"] > 0.85


def test_the_version_in_use_compared_with_itself_is_undecided(trained):
    document = trained.json("evaluate_model", "--agent", "support-chat", "--checkpoint", str(adapter(trained)))
    assert document["verdict"] == "undecided"


def test_what_cannot_be_measured_is_one_clear_error(trained: Site):
    refused = {
        ("--agent", "support-chat", "--version", "v9999"): "has no version 'v9999'; there are: v",
        ("--agent", "support-chat", "--checkpoint", "/nowhere"): "is neither an adapter nor a whole model",
        ("--agent", "nobody"): "unknown agent 'nobody'",
        ("--agent", "support-chat", "--output", "/nowhere/report.json"): "there is no directory /nowhere",
        ("--agent", "support-chat", "--output", "/"): "is a directory",
    }
    ends = ends_of(trained, *[("evaluate_model", *arguments) for arguments in refused])
    for (code, told), complaint in zip(ends, refused.values(), strict=True):
        assert (code, complaint in told, "Traceback" in told) == (2, True, False), told
