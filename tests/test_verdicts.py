"""benchmarks/verdicts.py: what people preferred is read, and picks that are drawn of it are judged as the product does."""

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from django.conf import settings

from rl.base.errors import BadFile
from rl.evaluation.stats.bets import evidence, interval


@pytest.fixture
def verdicts(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(settings.BASE_DIR / "benchmarks"))
    import verdicts

    return verdicts


def annotated(number: int, *votes: int) -> dict[str, Any]:
    """As PandaLM's test set has it: 1 for the first answer, 2 for the second, 0 for neither."""
    votes_of = {f"annotator{place}": vote for place, vote in enumerate(votes, 1)}
    texts = {"instruction": f"Say {number}.", "input": "", "response1": "One.", "response2": "Two."}
    return {**texts, "cmp_key": "ant-7b_bee-7b", **votes_of}


def written(tmp_path: Path, *rows: dict[str, Any]) -> Path:
    file = tmp_path / "people.json"
    file.write_text(json.dumps(rows))
    return file


def test_annotators_are_votes_and_each_pair_is_taken_both_ways_round(verdicts: ModuleType, tmp_path: Path):
    people = verdicts.read_people(written(tmp_path, *(annotated(number, 1, 2, 0) for number in range(30))))
    assert people[0].votes == (1, 0, 0.5)
    there, back = verdicts.directions(people)
    assert (there[0].models, back[0].models) == (("ant-7b", "bee-7b"), ("bee-7b", "ant-7b"))
    assert (back[0].answers, back[0].votes) == (("Two.", "One."), (0, 1, 0.5))


def test_an_arenas_winner_is_one_vote_and_anything_else_a_tie(verdicts: ModuleType, tmp_path: Path):
    row = {"prompt": "Hi", "response_a": "A", "response_b": "B", "model_a": "ant", "model_b": "bee"}
    rows = [{**row, "winner": winner} for winner in ("model_a", "model_b", "tie (bothbad)")]
    assert [row.votes for row in verdicts.read_people(written(tmp_path, *rows))] == [(1,), (0,), (0.5,)]


def test_a_row_of_neither_form_is_named(verdicts: ModuleType, tmp_path: Path):
    with pytest.raises(BadFile, match="row 2 is neither PandaLM's nor LMArena's"):
        verdicts.read_people(written(tmp_path, annotated(1, 1), {"text": "x"}))


def test_the_evidence_grows_pick_by_pick_as_the_products_does(verdicts: ModuleType):
    picks = np.array([1.0, 0.0, 0.5, 1.0, 1.0])
    for number in range(1, 6):
        assert verdicts.grown(picks, 0.5)[number - 1] == pytest.approx(evidence(picks[:number].tolist()))
    known = interval([1.0] * 12)
    assert verdicts.holds(np.ones(12), known.low + 0.01)
    assert not verdicts.holds(np.ones(12), known.low - 0.01)


def test_clearly_better_ones_are_promoted_as_often_as_is_planned_and_equal_ones_hardly_ever(
    verdicts: ModuleType, tmp_path: Path
):
    rows = [
        annotated(number, 1, 1, 1 if number % 4 else 2) if number % 5 else annotated(number, 2) for number in range(40)
    ]
    figures = verdicts.try_picks(verdicts.read_people(written(tmp_path, *rows)), 60, np.random.default_rng(1))
    assert figures["intervals_hold"]["share"] >= 0.94
    assert figures["better_promoted"]["share"] >= 0.75
    assert figures["equal_promoted"]["share"] <= 0.03
