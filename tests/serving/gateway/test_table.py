import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from django.db import OperationalError
from django.utils import timezone

from rl.models import Agent, ApiKey, Arm, Deployment, Experiment, ModelVersion, TrainingRun, TrainingSet
from rl.serving.gateway import table
from rl.serving.gateway.routing import Snapshot
from rl.serving.gateway.table import load
from rl.serving.upstreams import upstream_of


@pytest.fixture
def database(monkeypatch: pytest.MonkeyPatch) -> list[Snapshot | Exception]:
    """What the readings find, one after the other; the last one stays."""
    found: list[Snapshot | Exception] = [Snapshot()]

    def load(reader: object) -> Snapshot:
        one = found.pop(0) if len(found) > 1 else found[0]
        if isinstance(one, Exception):
            raise one
        return one

    monkeypatch.setattr(table, "_load", load)
    return found


def with_table(work: Callable[[table.Table], Awaitable[None]]) -> None:
    async def started() -> None:
        one = table.Table()
        await one.start()
        try:
            await work(one)
        finally:
            await one.stop()

    asyncio.run(started())


def test_what_changes_is_seen_without_being_asked_for(database, monkeypatch):
    monkeypatch.setattr(table, "REFRESH_SECONDS", 0.01)
    first, second = Snapshot(), Snapshot()
    database[:] = [first, second]

    async def work(one: table.Table) -> None:
        assert one.snapshot is first
        async with asyncio.timeout(20):
            while one.snapshot is first:
                await asyncio.sleep(0.01)
        assert one.snapshot is second

    with_table(work)


def test_a_database_that_refuses_leaves_the_last_snapshot_in_use_and_is_told_once(database, monkeypatch, caplog):
    monkeypatch.setattr(table, "FRESH_SECONDS", 0.0)
    first, later = Snapshot(), Snapshot()
    database[:] = [first, OperationalError("database is locked"), OperationalError("database is locked"), later]

    async def work(one: table.Table) -> None:
        assert [await one.fresh() for _ in range(3)] == [first, first, later]

    with_table(work)
    assert caplog.text.count("the last known ones are used: database is locked") == 1


def test_a_reading_that_is_under_way_ends_with_the_gateway(monkeypatch):
    monkeypatch.setattr(table, "FRESH_SECONDS", 0.0)
    began, go_on = threading.Event(), threading.Event()

    def load(reader: object) -> Snapshot:
        began.set()
        go_on.wait(60)
        return Snapshot()

    async def stop() -> set[asyncio.Task[Any]]:
        one = table.Table()
        one._next_reading()
        await asyncio.to_thread(began.wait, 60)
        await one.stop()
        go_on.set()
        return asyncio.all_tasks() - {asyncio.current_task()}

    monkeypatch.setattr(table, "_load", load)
    assert asyncio.run(stop()) == set()


def test_what_is_made_while_the_database_is_read_is_seen_by_who_asks_afterwards(monkeypatch):
    monkeypatch.setattr(table, "FRESH_SECONDS", 0.0)
    first, second, third = Snapshot(), Snapshot(), Snapshot()
    database, looked_up, go_on = [first], threading.Event(), threading.Event()

    def load(reader: object) -> Snapshot:
        seen = database[-1]
        looked_up.set()
        go_on.wait(60)
        return seen

    async def work(one: table.Table) -> None:
        monkeypatch.setattr(table, "_load", load)
        database.append(second)
        early = asyncio.create_task(one.fresh())
        await asyncio.to_thread(looked_up.wait, 60)
        database.append(third)
        late = asyncio.create_task(one.fresh())
        await asyncio.sleep(0.05)
        go_on.set()
        assert await early is second
        assert await late is third

    monkeypatch.setattr(table, "_load", lambda reader: first)
    with_table(work)


def test_who_asks_for_what_is_unknown_leads_to_few_readings(database, monkeypatch):
    monkeypatch.setattr(table, "FRESH_SECONDS", 0.3)
    first, second = Snapshot(), Snapshot()
    database[:] = [first, second, OperationalError("nobody asks")]

    async def work(one: table.Table) -> None:
        began = time.monotonic()
        assert [each is second for each in await asyncio.gather(*(one.fresh() for _ in range(100)))] == [True] * 100
        assert time.monotonic() - began > 0.2

    with_table(work)
    assert len(database) == 1


def test_a_slow_database_holds_a_request_up_for_a_while_only(database, monkeypatch):
    monkeypatch.setattr(table, "FRESH_SECONDS", 0.0)
    monkeypatch.setattr(table, "PATIENCE_SECONDS", 0.05)
    answered = threading.Event()

    async def work(one: table.Table) -> None:
        monkeypatch.setattr(table, "_load", lambda reader: answered.wait(60) and Snapshot())
        known = one.snapshot
        waiting = [one.fresh() for _ in range(10)]
        assert [each is known for each in await asyncio.gather(*waiting)] == [True] * 10
        answered.set()

    with_table(work)


URL = "http://models.example"


def deployed(agent: Agent, name: str, **fields) -> ModelVersion:
    version = ModelVersion.objects.create(agent=agent, name=name, base_model="tiny", feedback_count=1)
    Deployment.objects.create(agent=agent, version=version, **{"target": "openai", "url": URL, **fields})
    return version


@pytest.mark.django_db
def test_it_knows_what_answers_and_why_the_rest_does_not(agent: Agent):
    deployed(agent, "v1", model_name="m1", alias="champion")
    deployed(agent, "v2", target="none", url="")
    deployed(agent, "v3", target="ollama", url="")
    found = {one.version: one for one in load().agents["support-chat"].deployed}
    assert (found["v1"].upstream.base_url, found["v1"].upstream.model) == (f"{URL}/v1", "m1")
    assert (found["v1"].alias, found["v1"].knows_system_prompt) == ("champion", False)
    assert (found["v2"].upstream, "not served" in found["v2"].problem) == (None, True)
    assert found["v3"].knows_system_prompt


@pytest.mark.django_db
@pytest.mark.database
def test_it_knows_which_versions_think_and_what_the_agent_says_of_its_base_model(agent: Agent):
    Agent.objects.filter(pk=agent.pk).update(thinks=True)
    for name, config in (("v1", {"thinks": True}), ("v2", {"thinks": False}), ("v3", {})):
        run = TrainingRun.objects.create(agent=agent, method="dpo", config=config, options={}, state="succeeded")
        run.version = deployed(agent, name)
        run.save()
    deployed(agent, "v4")
    Deployment.objects.create(agent=agent, version=None, target="openai", url=URL)
    found = {one.version: one.manner.thinks for one in load().agents["support-chat"].deployed}
    assert found == {"v1": True, "v2": False, "v3": False, "v4": False, "base": True}


@pytest.mark.django_db
@pytest.mark.database
def test_it_knows_what_is_asked_where_an_agent_is_unsure(agent: Agent):
    """Under the name of the larger agent, with the system prompt of the one that asks."""
    large = Agent.objects.create(name="large", base_model="big")
    Agent.objects.filter(pk=agent.pk).update(larger_agent=large, unsure_below=0.7)
    assert load().agents["support-chat"].larger is None
    Deployment.objects.create(agent=large, version=None, target="ollama", model_name="large:latest")
    found = load().agents["support-chat"]
    assert found.larger is not None
    assert found.larger.upstream is not None
    assert (found.larger.version, found.larger.upstream.model) == ("large", "large:latest")
    assert (found.larger.version_id, found.larger.knows_system_prompt, found.unsure_below) == (None, False, 0.7)
    assert load().agents["large"].larger is None


@pytest.mark.parametrize("target", ["llama_cpp", "ollama"])
def test_servers_that_pass_over_a_choice_are_given_a_set_as_a_schema_at_once(target: str):
    """They would say what they like, at any length, before the next form is tried."""
    agent = Agent(name="large", base_model="big")
    row = Deployment(pk=1, agent=agent, target=target, url="http://127.0.0.1:1", model_name="m")
    assert upstream_of(row).choice_forms == ("response_format",)


@pytest.mark.django_db
@pytest.mark.database
def test_it_knows_when_the_rows_of_a_version_were_chosen(agent: Agent):
    """A version that was brought from elsewhere has none: it counts from when it came."""
    trained, brought = (deployed(agent, name) for name in ("v1", "v2"))
    rows = TrainingSet.objects.create(
        agent=agent, method="dpo", content_hash="1", train_rows=1, heldout_rows=1, feedback_count=1, val_split=0.2
    )
    TrainingRun.objects.create(agent=agent, method="dpo", version=trained, config={}, options={}, training_set=rows)
    Deployment.objects.create(agent=agent, version=None, target="openai", url=URL)
    found = {one.version: one.learned_at for one in load().agents["support-chat"].deployed}
    assert found == {"v1": rows.created_at, "v2": brought.created_at, "base": None}


@pytest.mark.django_db
@pytest.mark.database
def test_it_knows_the_running_experiment_without_its_stopped_arms(agent: Agent):
    Experiment.objects.create(agent=agent, name="old", state="stopped")
    trial = Experiment.objects.create(agent=agent, name="new", state="running", started_at=timezone.now())
    for number, stopped in enumerate((False, True, False)):
        version = deployed(agent, f"v{number}")
        Arm.objects.create(experiment=trial, version=version, is_stopped=stopped, is_control=not number, weight=number)
    base = Arm.objects.create(experiment=trial)
    split = load().agents["support-chat"].split
    assert split.experiment_id == trial.pk
    assert [(side.version, side.weight, side.is_control) for side in split.sides] == [
        ("v0", 0.0, True),
        ("v2", 2.0, False),
        ("base", 1.0, False),
    ]
    assert split.sides[-1].arm_id == base.pk


@pytest.mark.django_db
@pytest.mark.database
def test_it_knows_keys_that_were_neither_revoked_nor_expired(agent: Agent):
    row, key = ApiKey.create(name="a", kind="secret", agent=agent)
    gone, _ = ApiKey.create(name="b", kind="secret")
    gone.revoke()
    ApiKey.create(name="c", kind="secret")
    ApiKey.objects.filter(name="c").update(expires_at=timezone.now())
    (known,) = load().keys.items()
    assert known[0] == ApiKey.digest_of(key)
    assert (known[1].id, known[1].is_secret, known[1].agent_id) == (row.pk, True, agent.pk)
    assert (known[1].scopes, known[1].expires_at) == ({"ingest", "read"}, None)


@pytest.mark.django_db
def test_it_reads_everything_with_a_handful_of_queries(agent: Agent, django_assert_max_num_queries):
    for number in range(5):
        deployed(Agent.objects.create(name=f"a{number}"), "v1")
    with django_assert_max_num_queries(5):
        load()
