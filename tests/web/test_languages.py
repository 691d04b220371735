"""Pages speak German and Spanish too; programs are answered in English."""

import json

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client
from django.utils import translation

from rl.models import Agent, Claim, RatingQueue
from rl.web.languages import digest
from tests.conftest import make_trace

GERMAN = {"Accept-Language": "de-CH,de;q=0.9,en;q=0.5"}


def test_a_page_speaks_the_language_of_the_browser(client: Client, db: None) -> None:
    page = client.get("/login/", headers=GERMAN)
    assert '<html lang="de">' in page.content.decode()
    assert "Anmelden" in page.content.decode()
    assert "Accept-Language" in page["Vary"]
    assert translation.get_language() == "en", "the next request is another reader's"


@pytest.mark.parametrize("accepted", ["", "fr,it;q=0.5", "en-GB,de;q=0.5", "*", "x" * 600, "de;q=nonsense"])
def test_whoever_reads_none_of_ours_better_gets_english(client: Client, db: None, accepted: str) -> None:
    page = client.get("/login/", headers={"Accept-Language": accepted}).content.decode()
    assert '<html lang="en">' in page
    assert "User name" in page


def test_what_is_chosen_at_the_foot_of_a_page_is_kept(client: Client, db: None) -> None:
    answer = client.post("/language/setlang/", {"language": "es", "next": "/login/"}, headers=GERMAN)
    assert (answer.status_code, answer["Location"]) == (302, "/login/")
    page = client.get("/login/", headers=GERMAN).content.decode()
    assert "Nombre de usuario" in page
    assert 'value="es" lang="es" aria-current="true">Español' in page


@pytest.mark.parametrize("next_page", ["https://elsewhere.example/", "//elsewhere.example/", "javascript:alert(1)"])
def test_choosing_leads_nowhere_else(client: Client, db: None, next_page: str) -> None:
    assert client.post("/language/setlang/", {"language": "de", "next": next_page})["Location"] == "/"


def test_a_form_of_another_site_cannot_choose(db: None) -> None:
    client = Client(enforce_csrf_checks=True)
    assert client.post("/language/setlang/", {"language": "de", "next": "/login/"}).status_code == 403


def test_programs_are_answered_in_english(client: Client, db: None) -> None:
    client.cookies[settings.LANGUAGE_COOKIE_NAME] = "de"
    for path in ("/api/v1/traces/", "/api/v1/feedback/", "/api/decisions/", "/v1/traces"):
        german, english = client.get(path, headers=GERMAN), Client().get(path)
        assert german.content == english.content, path
        assert "Content-Language" not in german


def test_decisions_are_named_in_the_language_and_stored_as_they_are(client: Client, alice: User, agent: Agent) -> None:
    trace = make_trace(agent)
    queue = RatingQueue.objects.create(agent=agent, name="experts")
    client.force_login(alice)
    claim = client.get("/rate/support-chat/experts/", headers=GERMAN).context["items"][0]["claim"]
    decision = {
        "id": "7cbf2a0e-3d4c-4f9b-9f0e-8d6f0f6b7a11",
        "claim": claim,
        "action": "rate",
        "value": 0,
        "tags": ["wrong"],
    }
    body = json.dumps({"decisions": [decision]})
    address = f"/rate/support-chat/{queue.name}/decisions/"
    news = client.post(address, body, content_type="application/json", headers=GERMAN).json()
    assert news["decisions"][0]["label"] == "Schlecht"
    assert news["progress"]["text"] == "1 von 1 · alles erledigt, danke" or news["progress"]["text"].startswith(
        "1 von 1"
    )
    assert Claim.objects.get().decision["value"] == 0
    assert trace.feedback.get().tags == ["wrong"]


@pytest.mark.parametrize("language", ["en", "de", "es"])
def test_the_words_of_scripts_are_kept_by_browsers_and_caches(client: Client, db: None, language: str) -> None:
    answer = client.get(f"/words/{language}/{digest()}.js")
    assert answer["Content-Type"].startswith("text/javascript")
    assert answer["Cache-Control"] == "public, max-age=31536000, immutable"
    assert "Cookie" not in answer.get("Vary", "")
    assert ("Gleich gut" in answer.content.decode()) == (language == "de")


@pytest.mark.parametrize("language", ["fr", "..", "de-ch", "x" * 200])
def test_there_are_no_words_of_other_languages(client: Client, db: None, language: str) -> None:
    assert client.get(f"/words/{language}/1.js").status_code == 404


def test_a_page_loads_the_words_of_its_language(client: Client, db: None) -> None:
    page = client.get("/login/", headers=GERMAN).content.decode()
    assert f'<script defer src="/words/de/{digest()}.js"></script>' in page


def test_words_of_another_day_are_not_kept(client: Client, db: None) -> None:
    assert client.get("/words/de/0.js")["Cache-Control"] == "no-cache"
