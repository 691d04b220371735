import logging
import random
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from rl import tasks
from rl.models import Agent, AuditEvent, Deployment, Experiment, Feedback, ModelVersion, Trace, WebhookDelivery
from rl.serving import probation, promotion
from rl.serving.experiments import lifecycle
from tests.admin.records import make_version
from tests.operations.webhooks.receiver import SECRET, write_file
from tests.serving.experiments.experimenting import create, rate

pytestmark = pytest.mark.usefixtures("data_dir")  # a rollback takes a lock


def serve(agent: Agent, version: ModelVersion | None) -> Deployment:
    name = version.name if version else "base"
    return Deployment.objects.create(
        agent=agent, version=version, target="openai", url="http://127.0.0.1:1", model_name=name
    )


def promote(agent: Agent, version: ModelVersion | None, hours_ago: float = 0.0) -> None:
    promotion.promote(agent, version)
    moment = timezone.now() - timedelta(hours=hours_ago)
    Agent.objects.filter(created_at__gt=moment).update(created_at=moment)
    AuditEvent.objects.filter(pk=AuditEvent.objects.latest("pk").pk).update(at=moment)


def answer_and_rate(
    agent: Agent, version: ModelVersion | None, users: int, up: int, hours_ago: float, name: str = "", **fields
) -> None:
    """So many users get an answer each and rate it, half an hour later; the first ``up`` with a thumb up."""
    prefix = name or f"{version} {hours_ago}"
    prompt = [{"role": "user", "content": "Where is my parcel?"}]
    moment = timezone.now() - timedelta(hours=hours_ago)
    values = {"prompt": prompt, "prompt_key": "k", "response": "Here.", "occurred_at": moment, **fields}
    traces = Trace.objects.bulk_create(
        Trace(agent=agent, model_version=version, unit=f"{prefix} {number}", **values) for number in range(users)
    )
    rows = rate(traces, up)
    Feedback.objects.filter(pk__in=[row.pk for row in rows]).update(created_at=moment + timedelta(minutes=30))


def in_use(agent: Agent) -> str:
    return getattr(Deployment.champion(agent), "name", "base")


def sentence(agent: Agent) -> str:
    return probation.describe_all().get(agent.name, "")


@pytest.fixture
def old(agent: Agent) -> ModelVersion:
    """In use for long, and rated well."""
    version = make_version(agent, "v11")
    serve(agent, version)
    promote(agent, version, hours_ago=1000)
    answer_and_rate(agent, version, 100, 80, hours_ago=60)
    return version


@pytest.fixture
def new(agent: Agent, old: ModelVersion) -> ModelVersion:
    """Promoted two days ago."""
    version = make_version(agent, "v12")
    serve(agent, version)
    promote(agent, version, hours_ago=48)
    return version


@pytest.fixture
def worse(agent: Agent, new: ModelVersion) -> ModelVersion:
    answer_and_rate(agent, new, 40, 8, hours_ago=24)
    return new


# --- taken back ---------------------------------------------------------------------------------------------------------


def test_a_version_whose_ratings_are_worse_is_taken_back_once(
    agent: Agent, worse: ModelVersion, settings, tmp_path, caplog
):
    endpoint = {"url": "https://hooks.example/", "secret": SECRET}
    settings.WEBHOOKS_FILE = write_file(tmp_path / "webhooks.yaml", ops=endpoint)
    assert "v11 returns by itself" in sentence(agent)
    with caplog.at_level(logging.WARNING):
        assert tasks.look_at_promotions() == ["v12"]
    assert {row.alias: row.version_name for row in agent.deployments.exclude(alias="")} == {
        "champion": "v11",
        "previous": "v12",
    }
    event = AuditEvent.objects.latest("pk")
    assert (event.action, event.target, event.details["before"]) == (
        "rolled_back",
        "model version support-chat v11",
        "v12",
    )
    reason = event.details["reason"]
    assert reason.startswith("its ratings are worse than those of v11: −0.600 (95 % interval −0.")
    assert reason.endswith("), rated users: 40, before 100")
    assert f"support-chat: v12 was taken back, v11 is in use: {reason}" in caplog.text
    data = WebhookDelivery.objects.get().payload["data"]
    assert (data["action"], data["in_use"], data["reason"]) == ("rolled_back", "v11", reason)
    assert sentence(agent).startswith(f"v12 was taken back on {timezone.localtime(event.at):%Y-%m-%d %H:%M}: {reason}")
    assert tasks.look_at_promotions() == []
    assert (in_use(agent), AuditEvent.objects.count()) == ("v11", 3)


def test_whoever_puts_it_in_use_again_keeps_it(agent: Agent, worse: ModelVersion):
    probation.tick()
    promotion.roll_back(agent)
    assert (in_use(agent), probation.tick(), sentence(agent)) == ("v12", [], "")
    promotion.promote(agent, agent.versions.get(name="v11"))
    promotion.promote(agent, worse)
    answer_and_rate(agent, worse, 40, 0, hours_ago=-0.1)
    assert (probation.tick(), in_use(agent)) == ([], "v12")


def test_of_two_queues_that_see_it_one_takes_it_back(agent: Agent, worse: ModelVersion, monkeypatch, caplog):
    def be_late(*args, **kwargs):
        promotion.roll_back(agent)
        return promotion.roll_back(*args, **kwargs)

    monkeypatch.setattr(probation, "roll_back", be_late)
    with caplog.at_level(logging.INFO):
        assert probation.tick() == []
    assert in_use(agent) == "v11"
    assert "support-chat: v12 of support-chat is not in use any more" in caplog.text


@pytest.mark.database
def test_the_first_version_goes_back_to_the_base_model_as_the_gateway_knows_it(agent: Agent):
    version = make_version(agent, "v1")
    for served in (None, version):
        serve(agent, served)
    answer_and_rate(agent, None, 100, 10, hours_ago=60, source="api")  # of whichever version
    answer_and_rate(agent, None, 60, 50, hours_ago=59, source="gateway")
    answer_and_rate(agent, None, 60, 0, hours_ago=58, source="gateway", details={"model_version": "v0"})  # was deleted
    promote(agent, version, hours_ago=48)
    answer_and_rate(agent, version, 40, 8, hours_ago=24)
    (taken,) = probation.tick()
    assert (taken.version, taken.previous, in_use(agent)) == (version, None, "base")
    assert "worse than those of base" in sentence(agent)
    assert "rated users: 40, before 60" in sentence(agent)


def test_an_agents_ratings_do_not_concern_another(agent: Agent, worse: ModelVersion):
    other = Agent.objects.create(name="other")
    versions = [make_version(other, name) for name in ("v11", "v12")]
    for version in versions:
        serve(other, version)
        promote(other, version, hours_ago=48)
    assert [taken.agent for taken in probation.tick()] == [agent]
    assert in_use(other) == "v12"


@pytest.mark.database
def test_where_answers_are_right_or_wrong_their_share_decides(agent: Agent, new: ModelVersion):
    """Edits count too, which are no ratings."""
    Agent.objects.update(answer_kind="closed")
    answer_and_rate(agent, new, 40, 40, hours_ago=24)
    edited = [row.trace_id for row in Feedback.objects.filter(trace__model_version=new)[:32]]
    Feedback.objects.filter(trace__in=edited).update(kind="correction", scale="", value=None, text="There.")
    assert "right in 8 of 40 corrected or rated answers (the version before: 80 of 100), −60.0 points" in sentence(
        agent
    )
    (taken,) = probation.tick()
    assert (taken.version, in_use(agent)) == (new, "v11")
    reason = AuditEvent.objects.latest("pk").details["reason"]
    assert reason.startswith("it is right less often than v11: right in 8 of 40 corrected or rated answers")
    assert reason.endswith("), rated users: 40, before 100")


def test_a_version_that_is_right_as_often_stays(agent: Agent, new: ModelVersion):
    Agent.objects.update(answer_kind="closed")
    answer_and_rate(agent, new, 40, 31, hours_ago=24)
    assert (probation.tick(), in_use(agent)) == ([], "v12")
    assert "right in 31 of 40 corrected or rated answers (the version before: 80 of 100), −2.5 points" in sentence(
        agent
    )


def test_before_twenty_users_a_side_only_the_counts_are_told(agent: Agent, new: ModelVersion):
    Agent.objects.update(answer_kind="closed")
    answer_and_rate(agent, new, 5, 1, hours_ago=24)
    counts = "right in 1 of 5 corrected or rated answers (the version before: 80 of 100), rated users: 5, before 100."
    assert sentence(agent).endswith(counts)


# --- not taken back -----------------------------------------------------------------------------------------------------


def test_a_version_that_is_as_good_passes_however_often_one_looks(agent: Agent, new: ModelVersion):
    draw = random.Random(3)
    for number in range(100):
        users, up = 2, sum(draw.random() < 0.8 for _ in range(2))
        answer_and_rate(agent, new, users, up, hours_ago=24 - number / 10, name=f"visit {number}")
        assert probation.tick() == []
        if number == 49:
            assert sentence(agent).startswith("On probation against v11 until ")
            assert "or 200 rated users: " in sentence(agent)
    assert sentence(agent).startswith("Its probation ended without harm: ")
    answer_and_rate(agent, new, 300, 0, hours_ago=1, name="late")
    assert (probation.tick(), in_use(agent)) == ([], "v12")


def test_a_small_loss_is_borne(agent: Agent, new: ModelVersion):
    answer_and_rate(agent, new, 150, 108, hours_ago=24)
    assert (probation.tick(), in_use(agent)) == ([], "v12")


def test_before_twenty_users_have_rated_each_side_nothing_is_concluded(agent: Agent, new: ModelVersion):
    answer_and_rate(agent, new, 19, 0, hours_ago=24)
    assert probation.tick() == []
    assert "rated users: 19, before 100" in sentence(agent)
    AuditEvent.objects.filter(target__endswith="v12").update(at=timezone.now() - timedelta(days=8))
    assert sentence(agent).startswith("Its probation ended without an answer, which takes 20 users a side: ")


@pytest.mark.database
def test_a_user_counts_once_and_who_is_not_named_is_known_by_the_rater(agent: Agent, new: ModelVersion):
    answer_and_rate(agent, new, 60, 0, hours_ago=24)
    Trace.objects.filter(model_version=new).update(unit="")
    assert probation.tick() == []
    assert "rated users: 1, before 100" in sentence(agent)


@pytest.mark.database
def test_ratings_of_older_answers_and_withdrawn_ones_do_not_count(agent: Agent, worse: ModelVersion):
    Trace.objects.filter(model_version=worse).update(occurred_at=timezone.now() - timedelta(hours=50))
    assert probation.tick() == []
    Trace.objects.filter(model_version=worse).update(occurred_at=timezone.now() - timedelta(hours=24))
    Feedback.objects.filter(trace__model_version=worse).update(is_current=False)
    assert probation.tick() == []


@pytest.mark.database
def test_of_the_version_before_the_newest_ratings_count_and_none_after_the_promotion(agent: Agent, worse: ModelVersion):
    old = agent.versions.get(name="v11")
    answer_and_rate(agent, old, 500, 400, hours_ago=50)
    answer_and_rate(agent, old, 300, 0, hours_ago=30)
    assert "rated users: 40, before 500" in sentence(agent)
    Feedback.objects.filter(trace__model_version=old).update(created_at=timezone.now() - timedelta(days=31))
    assert "rated users: 40, before 0" in sentence(agent)


@pytest.mark.database
def test_after_a_week_probation_is_over(agent: Agent, worse: ModelVersion):
    week = timedelta(days=7, minutes=1)
    AuditEvent.objects.filter(target__endswith="v12").update(at=timezone.now() - week)
    days_ago = {"v11": 9, "v12": 1}
    for name, days in days_ago.items():
        rows = Feedback.objects.filter(trace__in=Trace.objects.filter(model_version__name=name))
        rows.update(created_at=timezone.now() - timedelta(days=days))
    assert (probation.tick(), in_use(agent)) == ([], "v12")
    assert sentence(agent).endswith("rated users: 40, before 100. Roll back.")
    AuditEvent.objects.filter(target__endswith="v12").update(at=timezone.now() - timedelta(days=15))
    assert sentence(agent) == ""


def test_what_somebody_promoted_since_is_not_taken_back(agent: Agent, worse: ModelVersion):
    third = make_version(agent, "v13")
    serve(agent, third)
    promote(agent, third)
    assert (probation.tick(), in_use(agent)) == ([], "v13")
    assert sentence(agent).startswith("On probation against v12 until ")
    promotion.promote(agent, None)
    assert (probation.tick(), in_use(agent), sentence(agent)) == ([], "base", "")


@pytest.mark.database
@pytest.mark.parametrize("change", [{"target": "none"}, {"settings": {"error": "given up"}}, {"api_key_env": "NO_KEY"}])
def test_what_cannot_answer_does_not_return(agent: Agent, worse: ModelVersion, change: dict):
    Deployment.objects.filter(version__name="v11").update(**change)
    assert (probation.tick(), in_use(agent)) == ([], "v12")
    assert sentence(agent).endswith("Nothing serves that one.")
    Deployment.objects.filter(version__name="v11").update(target="openai", settings={}, api_key_env="")
    assert [taken.version for taken in probation.tick()] == [worse]


@pytest.mark.database
def test_a_running_experiment_decides_and_so_does_one_that_ended_with_an_answer(agent: Agent, worse: ModelVersion):
    old = agent.versions.get(name="v11")
    experiment = create(agent, "first", [(worse, 1.0), (old, 1.0)], old)
    lifecycle.start(experiment)
    assert (probation.tick(), in_use(agent)) == ([], "v12")
    assert sentence(agent) == "Experiment first decides about it."
    ended = {"state": "stopped", "stopped_at": timezone.now()}
    Experiment.objects.update(verdict="no_difference", **ended)
    assert (probation.tick(), in_use(agent)) == ([], "v12")
    Experiment.objects.update(verdict="stopped", **ended)
    assert [taken.version for taken in probation.tick()] == [worse]


@pytest.mark.database
def test_an_experiment_that_promoted_it_is_no_answer_to_what_came_after(agent: Agent, worse: ModelVersion):
    old = agent.versions.get(name="v11")
    experiment = create(agent, "first", [(worse, 1.0), (old, 1.0)], old)
    stopped_at = timezone.now() - timedelta(hours=48, minutes=5)
    Experiment.objects.filter(pk=experiment.pk).update(state="stopped", verdict="promote", stopped_at=stopped_at)
    assert [taken.version for taken in probation.tick()] == [worse]


@pytest.mark.database
def test_an_ollama_that_does_not_answer_is_asked_again(agent: Agent, worse: ModelVersion, settings, caplog):
    settings.OLLAMA_URL = "http://127.0.0.1:9"
    Deployment.objects.filter(version__name="v11").update(target="ollama")
    assert (probation.tick(), in_use(agent)) == ([], "v12")
    assert "support-chat: v12 could not be taken back: Ollama does not answer" in caplog.text
    Deployment.objects.filter(version__name="v11").update(target="openai")
    assert [taken.version for taken in probation.tick()] == [worse]


# --- told ---------------------------------------------------------------------------------------------------------------


def test_the_dashboard_tells_how_it_goes(client: Client, bob, agent: Agent, worse: ModelVersion):
    client.force_login(bob)
    assert "Its ratings are worse than those of v11: −0.600" in client.get("/").content.decode()
    probation.tick()
    assert "v12 was taken back on " in client.get("/").content.decode()


def test_where_nothing_was_promoted_lately_it_costs_one_query(
    agent: Agent, old: ModelVersion, django_assert_num_queries
):
    with django_assert_num_queries(1):
        assert probation.tick() == []
