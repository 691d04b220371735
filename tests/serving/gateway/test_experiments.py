from collections.abc import Container

import openai
import pytest

from tests.serving.gateway.conftest import Gateway
from tests.waiting import until

pytestmark = pytest.mark.process


EXPERIMENT = "(SELECT experiment_id FROM rl_arm WHERE id = ?)"


def ask(gateway: Gateway, unit: str, model: str = "split") -> tuple[str, str]:
    """The arm and the version that answer."""
    raw = gateway.client().chat.completions.with_raw_response.create(
        model=model, messages=[{"role": "user", "content": "hello"}], user=unit
    )
    assert raw.parse().choices[0].message.content.startswith(f"{model}-{raw.headers['x-ratchet-version']} ")
    return raw.headers["x-ratchet-arm"], raw.headers["x-ratchet-version"]


def test_users_are_split_and_stay_on_their_side(gateway: Gateway):
    arms = {str(arm): version for version, arm in gateway.arms["split"].items()}
    first = {unit: ask(gateway, unit) for unit in map("split {}".format, range(40))}
    assert all(arms[arm] == version for arm, version in first.values())
    assert 8 <= sum(version == "base" for _, version in first.values()) <= 32
    assert all(ask(gateway, unit) == first[unit] for unit in [*first][:6])
    until(lambda: _stored(gateway, first) == 46)
    sql = f"SELECT unit, arm_id FROM rl_assignment WHERE experiment_id = {EXPERIMENT}"
    rows = {unit: str(arm) for unit, arm in gateway.site.query(sql, gateway.arms["split"]["base"])}
    assert {unit: rows[unit] for unit in first} == {unit: arm for unit, (arm, _) in first.items()}
    base = gateway.arms["split"]["base"]
    of_arm = "SELECT COUNT(*), COUNT(DISTINCT model_version_id) FROM rl_trace WHERE arm_id = ?"
    until(lambda: gateway.site.query(of_arm, base) == [(gateway.counts(base)[0], 0)])


def _stored(gateway: Gateway, units: Container[str]) -> int:
    sql = f"SELECT unit FROM rl_trace WHERE arm_id IN (SELECT id FROM rl_arm WHERE experiment_id = {EXPERIMENT})"
    return sum(unit in units for (unit,) in gateway.site.query(sql, gateway.arms["split"]["base"]))


def test_a_conversation_without_a_name_stays_on_its_side(gateway: Gateway):
    said = [{"role": "user", "content": "Where is my parcel 4711?"}]
    first = gateway.client("split").chat.completions.create(model="split", messages=said)
    more = [*said, {"role": "assistant", "content": "On its way."}, {"role": "user", "content": "hello"}]
    second = gateway.client("split").chat.completions.create(model="split", messages=more)
    assert first.model == second.model
    units = {gateway.trace(one.id)["unit"] for one in (first, second)}
    assert len(units) == 1
    assert units.pop().startswith("conversation:")


def test_an_arm_that_nothing_serves_fails_and_no_other_answers_for_it(gateway: Gateway):
    answered, refused = [], []
    for unit in map(str, range(12)):
        try:
            answered.append(ask(gateway, unit, "half")[1])
        except openai.InternalServerError as error:
            refused.append(error)
    assert answered == ["v1"] * len(answered)
    assert 0 < len(refused) < 12
    assert {error.status_code for error in refused} == {503}
    assert "v2 of half is not deployed" in refused[0].message
    assert refused[0].response.headers["x-ratchet-arm"] == str(gateway.arms["half"]["v2"])
    until(lambda: gateway.counts(gateway.arms["half"]["v2"]) == (len(refused), len(refused)))
    until(lambda: gateway.counts(gateway.arms["half"]["v1"]) == (len(answered), 0))


@pytest.mark.parametrize("order", ["break off", "status 500"])
def test_what_an_upstream_breaks_is_a_failure_of_the_arm(gateway: Gateway, order: str):
    arms = gateway.arms["split"].values()
    before = sum(gateway.counts(arm)[1] for arm in arms)
    with pytest.raises(openai.APIError):
        list(gateway.say(order, model="split", stream=True, user="carl"))
    assert until(lambda: sum(gateway.counts(arm)[1] for arm in arms) == before + 1)
