"""What was answered with 201 is stored, whatever happens to the process the next moment."""

import http.client
import json
import os
import signal
import threading
from pathlib import Path
from uuid import UUID

import pytest
from django.db import connection

from tests.commands.site import Site
from tests.commands.test_serve import get, start
from tests.ports import reserve_port
from tests.serving.gateway.conftest import copy_database
from tests.waiting import until

pytestmark = pytest.mark.process


FILL = """
import json
from django.core.management import call_command
from rl.models import Agent, ApiKey, Trace
call_command("migrate", verbosity=0)
agent = Agent.objects.create(name="busy")
prompt = [{"role": "user", "content": "Where is my parcel?"}]
traces = Trace.objects.bulk_create([Trace(agent=agent, prompt=prompt, response="On its way.") for _ in range(20)])
print(json.dumps([ApiKey.create(name="test", kind="secret")[1], *[str(trace.pk) for trace in traces]]))
"""
BEFORE_THE_END = 100


class Raters:
    """Eight, each with a connection that sends one rating after the other until the server is gone."""

    def __init__(self, port: int, key: str, traces: list[str]) -> None:
        self.port, self.traces = port, traces
        self.headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        self.acknowledged: set[tuple[str, str]] = set()
        self.refused: list[tuple[int, bytes]] = []
        self.threads = [threading.Thread(target=self._rate, args=(f"rater-{number}",)) for number in range(8)]

    def _rate(self, name: str) -> None:
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        for number in range(10_000):
            trace, rater = self.traces[number % len(self.traces)], f"{name}-{number}"
            body = json.dumps({"trace": trace, "rater": rater, "scale": "thumb", "value": 1})
            try:
                link.request("POST", "/api/v1/feedback/", body, self.headers)
                answer = link.getresponse()
                said = answer.read()
            except (OSError, http.client.HTTPException):
                return
            if answer.status == 201:
                self.acknowledged.add((trace, rater))
            else:
                self.refused.append((answer.status, said))


@pytest.mark.slow
def test_a_killed_server_loses_no_rating_that_it_answered(tmp_path: Path, db):
    site = Site(tmp_path / "data")
    site.data.mkdir()
    if connection.vendor == "sqlite":  # the tests' own, which has no row: migrating another takes seconds
        copy_database(Path(connection.settings_dict["NAME"]), site)
    key, *traces = json.loads(site.run("shell", "--no-imports", "-c", FILL).stdout)
    port = reserve_port()
    process = start(site, "--port", str(port), API_REQUESTS_PER_MINUTE="1000000")
    try:
        until(lambda: get(f"http://127.0.0.1:{port}/healthz")[0] == 200, 60)
        raters = Raters(port, key, traces)
        for thread in raters.threads:
            thread.start()
        until(lambda: len(raters.acknowledged) >= BEFORE_THE_END, 60)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    for thread in raters.threads:
        thread.join(60)
    assert raters.refused == []
    stored = set(site.query("SELECT trace_id, rater FROM rl_feedback WHERE is_current"))
    assert {(UUID(trace).hex, rater) for trace, rater in raters.acknowledged} <= stored
    assert site.query("PRAGMA integrity_check") == [("ok",)]
