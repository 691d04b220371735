"""A sentence that is told with every question: tried, used, left and taken back on the page of a conversation."""

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from rl.collect.feedback.write import rate
from rl.models import Agent, Deployment, LabelModel
from rl.serving import forecast, judge_server
from rl.serving.gateway.best_of import Unjudged
from rl.serving.heeded import past_questions
from tests.admin.records import make_version
from tests.conftest import make_trace

pytestmark = [pytest.mark.database, pytest.mark.django_db]
PAGE, CHANGE = "/try/support-chat/", "/try/support-chat/instruction/"
SHORT = "Answer in one short sentence."


@pytest.fixture
def served(agent: Agent) -> Deployment:
    return Deployment.objects.create(agent=agent, target="openai", url="http://127.0.0.1:9", model_name="m")


@pytest.fixture
def staff(client: Client, bob: User) -> Client:
    client.force_login(bob)
    return client


def send(client: Client, action: str, **fields: str):
    return client.post(CHANGE, {"action": action, **fields})


def test_it_is_tried_on_past_questions_and_nothing_is_in_use_of_it(
    staff: Client, agent: Agent, served: Deployment
) -> None:
    make_trace(agent, "Why?", response="A long answer.")
    news = send(staff, "try", text=SHORT).json()
    assert news == {"version": "v1", "before": "base", "questions": [{"question": "Why?", "before": "A long answer."}]}
    assert Deployment.champion(agent) is None


def test_it_is_used_and_taken_back(staff: Client, agent: Agent, served: Deployment) -> None:
    send(staff, "try", text=SHORT)
    assert send(staff, "use", version="v1").json() == {"told": SHORT, "taken_back": "v1", "notes": []}
    page = staff.get(PAGE).content.decode()
    assert f'<q id="told-text" dir="auto">{SHORT}</q>' in page
    assert 'data-taken-back="v1"' in page
    assert send(staff, "back", version="v1").json() == {"told": "", "taken_back": "", "notes": []}
    assert Deployment.champion(agent) is None


def test_what_is_left_is_not_served_any_more(staff: Client, agent: Agent, served: Deployment) -> None:
    send(staff, "try", text=SHORT)
    assert send(staff, "leave", version="v1").status_code == 200
    assert list(agent.deployments.all()) == [served]
    assert send(staff, "leave", version="v1").status_code == 200  # a second click


def test_what_is_in_use_is_not_left(staff: Client, agent: Agent, served: Deployment) -> None:
    send(staff, "try", text=SHORT)
    send(staff, "use", version="v1")
    assert send(staff, "leave", version="v1").json() == {"error": "v1 is in use: take it back first"}


def test_a_trained_version_is_not_put_into_use_from_here(staff: Client, agent: Agent) -> None:
    make_version(agent, "v1")
    assert send(staff, "use", version="v1").json() == {"error": "v1 was trained: its own page puts it into use"}
    assert send(staff, "use", version="v9").status_code == 404


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"text": ""}, "say in a sentence"),
        ({"text": "x" * 501}, "at most 500 characters"),
        ({"text": SHORT, "place": "nowhere"}, "nowhere"),
        ({"action": "train"}, "action"),
    ],
)
def test_what_is_wrong_is_told(staff: Client, agent: Agent, served: Deployment, fields: dict, reason: str) -> None:
    answer = staff.post(CHANGE, {"action": "try", **fields})
    assert (answer.status_code, reason in answer.json()["error"]) == (400, True)
    assert not agent.versions.exists()


def test_raters_see_nothing_of_it_and_may_not(client: Client, alice: User, agent: Agent, served: Deployment) -> None:
    client.force_login(alice)
    assert 'id="instruction"' not in client.get(PAGE).content.decode()
    assert send(client, "try", text=SHORT).status_code == 403
    assert client.post("/try/support-chat/as/base/", {}).status_code == 403


@pytest.mark.parametrize("missing", ["change_deployment", "view_trace", "view_feedback"])
def test_staff_without_one_of_the_permissions_may_not(client: Client, agent: Agent, missing: str) -> None:
    given = {"change_deployment", "view_trace", "view_feedback", "add_feedback"} - {missing}
    staff = User.objects.create_user("dora", is_staff=True)
    staff.user_permissions.set(Permission.objects.filter(content_type__app_label="rl", codename__in=given))
    client.force_login(staff)
    assert 'id="instruction"' not in client.get(PAGE).content.decode()
    assert send(client, "try", text=SHORT).status_code == 403


def test_notes_of_raters_stand_there_the_commonest_first_and_without_a_name(staff: Client, agent: Agent) -> None:
    for number, note in enumerate(["Too long", "No lists", "too  long", "y" * 200]):
        rated = make_trace(agent, f"question {number}")
        rate(rated, rater=f"user:{number}", scale="thumb", value=0, source="test", notes=note)
    assert staff.get(PAGE).context["instruction"]["notes"] == [("too long", 2), ("No lists", 1)]
    assert 'data-text="too long" dir="auto">too long <span class="soft">× 2</span>' in staff.get(PAGE).content.decode()


def test_past_questions_are_different_and_begin_a_conversation(agent: Agent) -> None:
    live = make_version(agent, "v1")
    make_trace(agent, "Why?", response="old", model_version=live)
    make_trace(agent, "Why?", response="new", model_version=live)
    make_trace(agent, "How?", response="of the base model")
    assert past_questions(agent, live, 1) == [{"question": "How?", "before": None}]
    assert past_questions(agent, live, 8) == [
        {"question": "How?", "before": None},
        {"question": "Why?", "before": "new"},
    ]


def test_without_past_questions_the_place_is_behind_the_question(
    staff: Client, agent: Agent, served: Deployment
) -> None:
    news = send(staff, "place", text=SHORT).json()
    assert news == {"place": "question", "heeded": {"question": 0, "system": 0}, "of": 0, "sure": False}
    assert send(staff, "place", text=" ").json() == {"error": "say in a sentence what the answers should be like"}
    assert not agent.versions.exists()


def test_where_there_is_no_judge_it_says_why(staff: Client, agent: Agent, served: Deployment) -> None:
    why = "support-chat has no judge yet: run 'auto_label --agent support-chat'"
    answer = send(staff, "judge", question="Why?", before="Long.", after="Short.")
    assert answer.json() == {"problem": why, "waits": False}


@pytest.mark.parametrize(
    ("old", "new", "ratings", "prefers"),
    [
        ("Long.", "Short.", [0.0, 1.0], True),
        ("Long.", "Short.", [1.0, 0.0], False),
        ("Same.", "Same.", [0.0, 1.0], None),
        ("Long.", "Add salt. " * 20, [0.0, 1.0], False),  # a loop loses, whatever the judge says
        ("Add salt. " * 20, "Short.", [1.0, 0.0], True),
    ],
)
def test_the_judge_is_asked_and_a_loop_loses(
    monkeypatch: pytest.MonkeyPatch,
    staff: Client,
    agent: Agent,
    old: str,
    new: str,
    ratings: list[float],
    prefers: bool | None,
) -> None:
    async def rate_all(judge: object, prompt: object, answers: object) -> list[float]:
        return ratings

    monkeypatch.setattr(judge_server, "require_judge", lambda agent: LabelModel(agent=agent))
    monkeypatch.setattr(judge_server, "wake", lambda agent: None)
    monkeypatch.setattr(judge_server, "find_problem", lambda agent: "")
    monkeypatch.setattr(forecast, "rate", rate_all)
    assert send(staff, "judge", question="Why?", before=old, after=new).json() == {"prefers": prefers}


def test_a_judge_that_starts_is_waited_for(monkeypatch: pytest.MonkeyPatch, staff: Client, agent: Agent) -> None:
    def start_slowly(*of: object) -> None:
        raise Unjudged("the judge does not answer yet")

    monkeypatch.setattr(forecast, "compare", start_slowly)
    answer = send(staff, "judge", question="Why?", before="Long.", after="Short.")
    assert answer.json() == {"problem": "the judge does not answer yet", "waits": True}


def test_the_rating_page_and_the_agents_lead_staff_there_and_nobody_else(
    staff: Client, client: Client, alice: User, agent: Agent, served: Deployment
) -> None:
    link = f'href="{PAGE}#instruction"'
    make_trace(agent, "Why?")
    pages = ["/rate/support-chat/", "/agents/support-chat/"]
    assert [link in staff.get(page, follow=True).content.decode() for page in pages] == [True, True]
    client.force_login(alice)
    assert [link in client.get(page, follow=True).content.decode() for page in pages] == [False, False]
