import json
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from rl.models import Agent, Invite, RatingQueue


def call(*arguments: str) -> Any:
    out = StringIO()
    call_command("rating_queue", *arguments, "--json", stdout=out)
    return json.loads(out.getvalue())


@pytest.mark.database
def test_a_queue_is_made_shared_and_closed(agent: Agent, client) -> None:
    which = ("--agent", "support-chat", "--name", "experts")
    call("create", *which, "--rubric", "stars", "--filters", '{"rated": false}', "--tags", "legal,medical")
    assert RatingQueue.objects.get().tags == ["legal", "medical"]
    made = call("invite", *which, "--for", "Dr. Dora", "--days", "7")
    assert client.post(made["link"].removeprefix("http://127.0.0.1:8000")).status_code == 302
    assert [row["name"] for row in call("list")["queues"][0]["invites"]] == ["Dr. Dora"]
    assert call("revoke", str(Invite.objects.get().pk))["revoked_at"]
    assert call("close", *which)["closed_at"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["create", "--agent", "support-chat", "--name", "x", "--filters", "{"], "not JSON"),
        (["create", "--agent", "support-chat", "--name", "x", "--filters", '{"rated": 1}'], "true or false"),
        (["create", "--agent", "support-chat", "--name", "answers"], "already"),
        (["close", "--agent", "support-chat", "--name", "x"], "has no queue x"),
        (["invite", "--agent", "support-chat", "--name", "answers", "--for", "x", "--days", "0"], "1 to 365 days"),
        (["revoke", "7"], "no invitation 7"),
    ],
)
def test_what_cannot_be_is_refused_in_words(agent: Agent, arguments: list[str], words: str) -> None:
    with pytest.raises(CommandError, match=words) as refusal:
        call(*arguments)
    assert refusal.value.returncode == 2
