from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from rl.base.errors import UsageError
from rl.serving.gateway.routing import (
    KnownAgent,
    KnownKey,
    Route,
    Served,
    Side,
    Snapshot,
    TrafficSplit,
    TunedName,
    route,
)
from rl.serving.upstreams import Upstream

NOW = datetime(2026, 2, 2, tzinfo=UTC)
ANY = KnownKey(1, True, None)


def served(version_id: int | None, alias: str = "", up: bool = True) -> Served:
    name = f"v{version_id}" if version_id else "base"
    problem = "" if up else f"{name} is down"
    return Served(version_id, name, Upstream("http://x/v1", name) if up else None, problem, alias)


def agent(*deployed: Served, split: TrafficSplit | None = None) -> KnownAgent:
    return KnownAgent(1, "Chat", NOW, "", 64, deployed, split)


def ask(known: KnownAgent, model: str = "chat", unit: str = "anna", key: KnownKey = ANY) -> Route:
    return route(Snapshot({"chat": known}), key, model, unit, NOW + timedelta(hours=1))


def split(*weights: float, ramp: tuple = ()) -> TrafficSplit:
    """Arms 1, 2, … of versions 1, 2, …; the first is the control."""
    sides = tuple(Side(at, at, f"v{at}", weight, at == 1) for at, weight in enumerate(weights, 1))
    return TrafficSplit(7, NOW, list(ramp), sides)


TUNED = "ft:Tiny:ratchet:router:1a2b"
LAST = f"{TUNED}:ckpt-step-40"


@pytest.mark.parametrize("name", [TUNED, TUNED.lower(), LAST, LAST.lower()])
def test_a_tuned_model_is_a_version_under_another_name(name: str):
    known = agent(served(2, "champion"), served(1))
    names = {name.lower(): TunedName(name, "Chat@v1") for name in (TUNED, LAST)}
    snapshot = Snapshot({"chat": known}, {}, names)
    assert route(snapshot, ANY, name, "anna", NOW).model == "Chat@v1"
    with pytest.raises(UsageError, match="unknown agent"):
        route(snapshot, KnownKey(2, True, 7), name, "anna", NOW)
    with pytest.raises(UsageError, match="unknown agent 'ft:Tiny:ratchet:router:1a2b:ckpt-step-4'"):
        route(snapshot, ANY, f"{TUNED}:ckpt-step-4", "anna", NOW)
    with pytest.raises(UsageError, match="unknown agent 'ft:other'"):
        route(snapshot, ANY, "ft:other", "anna", NOW)


def test_the_champion_answers():
    found = ask(agent(served(3), served(2, "champion"), served(1, "previous")))
    assert (found.served.version, found.stands_in, found.model) == ("v2", False, "Chat@v2")


def test_the_champion_is_found_under_another_deployment_of_it():
    assert ask(agent(served(2), served(2, "champion", up=False))).served.upstream is not None


def test_without_the_champion_the_one_before_stands_in():
    found = ask(agent(served(3), served(2, "champion", up=False), served(1, "previous")))
    assert (found.served.version, found.stands_in) == ("v1", True)


def test_where_nothing_was_promoted_the_newest_stands_in():
    found = ask(agent(served(4, up=False), served(3), served(1)))
    assert (found.served.version, found.stands_in) == ("v3", True)


def test_a_version_that_a_person_went_back_from_does_not_stand_in_for_the_base_model():
    found = ask(agent(served(2, "previous"), served(1)))
    assert found.served.problem == "the base model of Chat is in use, and nothing serves it"


def test_a_version_that_was_never_promoted_does_not_stand_in_for_one_that_was():
    found = ask(agent(served(3), served(2, "champion", up=False)))
    assert found.served.problem == "v2 is down"


def test_an_agent_without_a_champion_uses_its_base_model():
    found = ask(agent(served(1, "previous"), served(None)))
    assert (found.served.version, found.stands_in) == ("base", False)


@pytest.mark.parametrize(
    ("known", "reason"),
    [
        (agent(), "the base model of Chat is in use, and nothing serves it"),
        (agent(served(2, "champion", up=False)), "v2 is down"),
    ],
)
def test_where_nothing_is_served_the_route_says_why(known: KnownAgent, reason: str):
    found = ask(known)
    assert (found.served.upstream, found.served.problem) == (None, reason)


def test_an_experiment_goes_before_the_champion():
    known = agent(served(1), served(2), served(3, "champion"), split=split(1, 1))
    arms = {ask(known, unit=str(unit)).arm_id for unit in range(30)}
    found = ask(known)
    assert arms == {1, 2}
    assert (found.experiment_id, found.served.version_id) == (7, found.arm_id)


def test_a_ramp_decides_by_the_hour():
    known = agent(served(1), served(2), split=split(1, 1, ramp=({"hours": 0, "share": 1.0},)))
    assert {ask(known, unit=str(unit)).arm_id for unit in range(20)} == {2}


def test_without_a_weight_the_experiment_decides_nothing():
    found = ask(agent(served(1, "champion"), split=split(0, 0)))
    assert (found.arm_id, found.served.version) == (None, "v1")


def test_an_arm_that_is_not_deployed_is_no_other_arm():
    found = ask(agent(served(1, "champion"), split=split(0, 1)))
    assert (found.arm_id, found.served.upstream) == (2, None)
    assert "v2 of Chat is not deployed" in found.served.problem


@pytest.mark.parametrize("model", ["chat@v2", "CHAT@V2"])
def test_a_pinned_version_is_no_part_of_the_experiment(model: str):
    found = ask(agent(served(1), served(2), split=split(1, 0)), model)
    assert (found.served.version, found.arm_id) == ("v2", None)


def test_the_base_model_can_be_pinned():
    assert ask(agent(served(1, "champion"), served(None)), "chat@base").served.version_id is None


@pytest.mark.parametrize(("model", "words"), [("other", "known: Chat"), ("chat@v9", "served: v2, v1")])
def test_unknown_names_are_answered_with_the_known_ones(model: str, words: str):
    with pytest.raises(UsageError, match=words):
        ask(agent(served(2), served(1)), model)


def test_a_key_of_another_agent_sees_none():
    with pytest.raises(UsageError, match="unknown agent 'chat'; known: none"):
        ask(agent(served(1)), key=KnownKey(2, True, 99))


def test_an_arm_has_its_own_number_of_answers_or_the_deployments():
    row = replace(served(1), best_of=3)
    assert ask(agent(row)).best_of == ask(agent(row), "chat@v1").best_of == 3
    sides = (Side(1, 1, "v1", 1.0, True), Side(2, 1, "v1", 1.0, False, best_of=1))
    known = agent(row, split=TrafficSplit(7, NOW, [], sides))
    counts = {ask(known, unit=str(unit)).arm_id: ask(known, unit=str(unit)).best_of for unit in range(20)}
    assert counts == {1: 3, 2: 1}
