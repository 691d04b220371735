"""What becomes of a version that people's picks decide about."""

import pytest
from django.conf import settings

from rl import tasks
from rl.base.locks import try_lock
from rl.base.records import GeneratedAnswer
from rl.evaluation.duels import Given, make_duels
from rl.models import Agent, AnswerPair, Deployment, Evaluation, Feedback, ModelVersion, Trace
from rl.models.traces import DUEL
from rl.runs.duels import find_waiting, is_due, settle, take_poll
from tests.admin.records import make_evaluation, make_run, make_training_set, make_version
from tests.conftest import make_trace

pytestmark = pytest.mark.django_db
DUELS = 24


@pytest.fixture
def waiting(agent: Agent) -> Evaluation:
    """v2, undecided against v1, with so many duels."""
    first, second = make_version(agent, "v1"), make_version(agent, "v2", stage="evaluated")
    Deployment.promote(first)
    training_set = make_training_set(agent)
    make_run(agent, version=second, training_set=training_set, options={"data": {}})
    report = {"reason": "Nobody can tell yet.", "evidence": [{"kind": "margins", "prompts": 9}]}
    evaluation = make_evaluation(second, training_set, verdict="undecided", against=first, report=report)
    answers = GeneratedAnswer("New.", 3, 2), GeneratedAnswer("Old.", 3, 2)
    given = [Given(make_trace(agent, number).prompt_key, *answers, 99) for number in range(DUELS)]
    evaluation.report |= {"duels": make_duels(evaluation, given)}
    evaluation.save()
    return evaluation


def pick(agent: Agent, number: int, choice: str) -> None:
    """At so many open duels; the new version's answer stands on the left."""
    decided = Feedback.objects.values("trace")
    for pair in list(AnswerPair.objects.filter(origin="duel").exclude(left__in=decided)[:number]):
        Feedback.objects.create(
            agent=agent,
            trace=pair.left,
            other_trace=pair.right,
            choice=choice,
            kind=Feedback.Kind.COMPARISON,
            rater="alice",
            source="rating_page",
        )


def reason_of(version: ModelVersion) -> str:
    return version.evaluations.first().report["reason"]


def test_it_waits_until_the_picks_decide(waiting: Evaluation, agent: Agent):
    assert take_poll(waiting).more.startswith("Nobody has picked yet")
    pick(agent, 3, "left")
    now = take_poll(waiting)
    assert (now.more, now.waiting) == (
        "Not decided yet: 3 for v2, 0 for v1; at least 9 more picks are needed, and more still if any is for v1",
        DUELS - 3,
    )
    assert not is_due(waiting)
    assert settle(waiting) == waiting
    assert Deployment.champion(agent).name == "v1"


def test_enough_picks_for_the_new_version_put_it_into_use(waiting: Evaluation, agent: Agent):
    pick(agent, 12, "left")
    assert is_due(waiting)
    made = settle(waiting)
    assert (made.verdict, made.report["decided_by"], made.report["duels"]) == ("promote", "picks", 0)
    assert made.report["evidence"][0]["share"]["value"] == 1
    assert Deployment.champion(agent).name == "v2"
    assert take_poll(made) is None
    assert list(find_waiting()) == []
    assert Trace.objects.filter(source=DUEL).count() == 24, "the answers that were compared are kept"


@pytest.mark.parametrize("choice", ["left", "right"])
def test_a_task_that_waited_in_the_queue_meanwhile_changes_nothing(waiting: Evaluation, agent: Agent, choice: str):
    pick(agent, 12, choice)
    tasks.settle_duels(waiting.pk)
    tasks.settle_duels(waiting.pk)
    assert waiting.version.evaluations.count() == 2


def test_enough_picks_for_the_version_in_use_reject_the_new_one(waiting: Evaluation, agent: Agent):
    pick(agent, 12, "right")
    assert settle(waiting).verdict == "reject"
    waiting.version.refresh_from_db()
    assert (waiting.version.stage, Deployment.champion(agent).name) == ("rejected", "v1")


def test_after_all_duels_without_a_clear_difference_nobody_is_asked_any_more(waiting: Evaluation, agent: Agent):
    pick(agent, DUELS // 2, "left")
    pick(agent, DUELS // 2, "right")
    assert is_due(waiting)
    assert settle(waiting) == waiting
    assert "12 for v2, 12 for v1" in reason_of(waiting.version)
    assert (take_poll(waiting), list(find_waiting())) == (None, [])


def test_a_version_whose_duels_gave_way_to_those_of_a_newer_one_ends_and_leaves_them(waiting: Evaluation, agent: Agent):
    pick(agent, 3, "left")
    third = make_evaluation(
        make_version(agent, "v3"), waiting.training_set, verdict="undecided", against=waiting.against
    )
    answers = GeneratedAnswer("Newer.", 3, 2), GeneratedAnswer("Old.", 3, 2)
    assert make_duels(third, [Given(make_trace(agent, "Anew?").prompt_key, *answers, 99)]) == 1
    assert is_due(waiting)
    settle(waiting)
    assert reason_of(waiting.version).endswith("No duel is left; evaluate_model makes some of newer questions.")
    assert list(AnswerPair.objects.filter(version__name="v3")) == list(
        AnswerPair.find_open(AnswerPair.Origin.DUEL, agent=agent)
    )


def test_a_version_that_loses_is_dropped_and_its_open_duels_go(waiting: Evaluation, agent: Agent):
    pick(agent, 6, "right")
    settle(waiting)
    assert "Nobody is asked any more, and v1 stays in use." in reason_of(waiting.version)
    assert AnswerPair.objects.filter(origin="duel").count() == 6


def test_where_another_version_came_into_use_meanwhile_nothing_is_decided(waiting: Evaluation, agent: Agent):
    pick(agent, 12, "left")
    Deployment.promote(make_version(agent, "v3"))
    settle(waiting)
    assert "Another version is in use since then" in reason_of(waiting.version)
    assert Deployment.champion(agent).name == "v3"


def test_where_a_person_put_it_into_use_nobody_is_asked_any_more(waiting: Evaluation, agent: Agent):
    pick(agent, 2, "left")
    Deployment.promote(waiting.version)
    assert is_due(waiting)
    settle(waiting)
    assert reason_of(waiting.version).endswith("A person has put it into use.")


def test_what_was_killed_between_the_promotion_and_its_record_is_recorded_a_minute_later(
    waiting: Evaluation, agent: Agent
):
    pick(agent, 12, "left")
    Deployment.promote(waiting.version)
    assert settle(waiting).verdict == "promote"


def test_with_an_operator_who_decides_it_is_judged_and_not_put_into_use(waiting: Evaluation, agent: Agent):
    Agent.objects.filter(pk=agent.pk).update(promoted_by="operator")
    pick(agent, 12, "left")
    evaluation = Evaluation.objects.get(pk=waiting.pk)
    assert settle(evaluation).verdict == "promote"
    assert Deployment.champion(agent).name == "v1"


def test_picks_promote_no_version_that_is_worse_for_a_group(waiting: Evaluation, agent: Agent):
    Agent.objects.filter(pk=agent.pk).update(group_by="language")
    asked = [pair.left.prompt_key for pair in AnswerPair.objects.select_related("left").order_by("pk")]
    by_judge = {"group": "language = fr", "text": "preferred in 9%", "worse": True, "as_good": False}
    Evaluation.objects.filter(pk=waiting.pk).update(report={**waiting.report, "groups": {"rows": [by_judge]}})
    for number, key in enumerate(asked):
        agent.traces.filter(prompt_key=key, source="api").update(details={"language": "fr" if number < 4 else "en"})
    pick(agent, 12, "left")
    made = settle(Evaluation.objects.get(pk=waiting.pk))
    assert (made.verdict, made.report["decided_by"], made.report["duels"]) == ("undecided", "picks", 0)
    assert made.report["reason"].startswith(
        "Better on the whole, but worse for language = fr: preferred in 9%. It does not"
    )
    assert (Deployment.champion(agent).name, list(find_waiting())) == ("v1", [])
    assert [row["group"] for row in made.report["groups"]["rows"]] == ["language = en", "language = fr"]


def test_two_processes_do_not_act_at_once(waiting: Evaluation, agent: Agent):
    pick(agent, 12, "left")
    file = settings.DATA_DIR / "locks" / f"duels-{agent.pk}.lock"
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w") as handle:
        assert try_lock(handle.fileno())
        assert settle(waiting) == waiting
    assert Deployment.champion(agent).name == "v1"


def test_the_queue_looks_and_hands_on_what_is_due(waiting: Evaluation, agent: Agent, monkeypatch: pytest.MonkeyPatch):
    asked = []
    monkeypatch.setattr("django_q.tasks.async_task", lambda *task, **how: asked.append((task, how)))
    assert tasks.look_at_duels() == []
    pick(agent, 12, "left")
    assert tasks.look_at_duels() == [waiting.pk]
    assert asked == [(("rl.tasks.settle_duels", waiting.pk), {"timeout": tasks.EXPORT_SECONDS})]
    assert tasks.settle_duels(waiting.pk) == "promote"
    assert tasks.settle_duels(waiting.pk + 99) == ""
