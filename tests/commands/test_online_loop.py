"""Site and queue running: ratings posted through the API lead, with no further hand, to a new evaluated version."""

import json
import urllib.request
from functools import partial
from pathlib import Path

import pytest

from rl.demo.support import demo_answers
from tests.commands.site import Site, kill_session
from tests.ports import reserve_port
from tests.waiting import until

pytestmark = pytest.mark.process


@pytest.fixture
def port() -> int:
    return reserve_port()


@pytest.fixture
def running(site: Site, port: int, tmp_path: Path):
    """The site and one queue cluster as separate processes."""
    environment = {"ENABLE_ONLINE_LEARNING": "1", "ALLOWED_HOSTS": "127.0.0.1"}
    processes = [
        site.fork("serve", "--port", str(port), **environment),
        site.fork("qcluster", **environment),
    ]
    until(partial(is_up, port))
    yield f"http://127.0.0.1:{port}"
    for process in processes:
        kill_session(process)


def is_up(port: int) -> bool:
    try:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=2)
    except OSError:
        return False
    return True


def post(address: str, key: str, body: dict) -> dict:
    request = urllib.request.Request(
        address,
        data=json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {key}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert answer.status == 201
        return json.load(answer)


@pytest.mark.slow
def test_a_hundred_ratings_lead_to_a_new_evaluated_version(site, running):
    site.change("UPDATE rl_feedback SET is_current = 0")
    site.shorten(3)
    site.change("UPDATE django_q_schedule SET next_run = datetime('now', '-1 minute')")
    key = site.json("api_key", "create", "--name", "app", "--kind", "secret")["key"]
    for question in demo_answers(seed=1)[:50]:
        for number, answer in enumerate(question.answers):
            thumb = next(rating.up for rating in question.opinions if rating.answer == number)
            trace = post(
                f"{running}/api/v1/traces/",
                key,
                {"agent": "support-chat", "prompt": question.question, "response": answer},
            )
            post(
                f"{running}/api/v1/feedback/",
                key,
                {"trace": trace["id"], "rater": "ann", "scale": "thumb", "value": int(thumb)},
            )
    run, trigger = site.wait_for(
        "SELECT id, \"trigger\" FROM rl_trainingrun WHERE state IN ('succeeded', 'failed')", seconds=1800
    )
    log = (site.data / "runs" / str(run) / "log.txt").read_text()
    assert site.query('SELECT state, "trigger" FROM rl_trainingrun') == [("succeeded", "online")], log
    ((name, stage, pairs),) = site.query(
        "SELECT v.name, v.stage, e.pairs FROM rl_modelversion v JOIN rl_evaluation e ON e.version_id = v.id"
    )
    assert name.startswith("v")
    assert stage in ("evaluated", "exported", "rejected")
    assert pairs > 0
    assert site.query("SELECT COUNT(*) FROM rl_feedback WHERE is_current AND training_set_id IS NULL") == [(0,)]
