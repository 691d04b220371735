"""The answers of an evaluation's models, side by side on its page."""

from typing import Any

import pytest
from django.test import Client

from rl.admin.versions import answer_table
from rl.models import Agent
from tests.admin.records import make_evaluation, make_training_set, make_version


def answered(text: str, *errors: str) -> dict[str, Any]:
    return {"answer": text, "errors": list(errors)}


@pytest.fixture
def page(client: Client, bob, agent: Agent) -> str:
    evaluation = make_evaluation(make_version(agent), make_training_set(agent))
    asked = {"prompt": "Why is <b>the</b> sea salty?", "base": answered("Rivers carry <i>minerals</i>.")}
    evaluation.report["guards"] = {"samples": [asked | {"new": answered("Why is the sea?", "echo", "too_long")}]}
    evaluation.save()
    client.force_login(bob)
    return client.get(f"/admin/rl/evaluation/{evaluation.pk}/change/").content.decode()


def test_the_answers_of_base_and_new_version_stand_side_by_side_with_their_errors(page: str):
    assert page.index('<th scope="col">prompt') < page.index("base model</th>") < page.index("new version</th>")
    assert (
        '<span class="state state-reject">echo</span> <span class="state state-reject">too long</span> Why is' in page
    )


def test_what_models_and_people_wrote_is_shown_as_text(page: str):
    assert "Why is &lt;b&gt;the&lt;/b&gt; sea salty?" in page
    assert "Rivers carry &lt;i&gt;minerals&lt;/i&gt;." in page


def test_the_version_in_use_has_a_column_where_it_was_asked():
    both = {"prompt": "?", "base": answered("A"), "new": answered("C")}
    assert "version in use" not in answer_table([both])
    assert "<td>A</td><td>B</td><td>C</td>" in answer_table([both | {"current": answered("B")}])


def test_without_answers_there_is_no_table():
    assert answer_table([]) == "–"
