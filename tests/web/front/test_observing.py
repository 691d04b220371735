"""A server of two processes: each request has a number, all are counted together, and the log is JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

from rl.web.front.observing import area_of
from tests.web.front.server import Server, served

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def pair(prepared) -> Iterator[Server]:
    with served(
        *prepared, "--workers", "2", LOG_FORMAT="json", DEBUG="0", HTTPS="0", ALLOWED_HOSTS="127.0.0.1"
    ) as found:
        yield found


def counted(server: Server) -> dict[tuple[str, ...], float]:
    families = text_string_to_metric_families(server.get("/metrics").text)
    return {
        (sample.labels["area"], sample.labels["method"], sample.labels["status"]): sample.value
        for family in families
        for sample in family.samples
        if sample.name == "ratchet_requests_total"
    }


def test_both_processes_are_counted_together(pair: Server):
    before = counted(pair)
    for _ in range(20):
        pair.get("/login/")
        pair.get("/v1/models")
    after = counted(pair)
    for series in (("pages", "GET", "200"), ("gateway", "GET", "401")):
        assert after[series] - before.get(series, 0) == 20


@pytest.mark.parametrize("path", ["/healthz", "/v1/models", "/login/", "/api/v1/traces/", "/no-such-page"])
def test_whoever_answers_the_answer_names_its_request(pair: Server, path: str):
    assert len(pair.get(path).headers.get_list("x-request-id")) == 1
    assert pair.get(path, headers={"x-request-id": "given-1"}).headers["x-request-id"] == "given-1"


def test_the_log_is_one_json_object_a_line_with_the_number_of_the_request(pair: Server):
    page = pair.get("/login/", headers={"x-request-id": "before"})
    token = page.cookies["csrftoken"]
    form = {"username": "bob", "password": "wrong", "csrfmiddlewaretoken": token}
    headers = {"x-request-id": "wrong-password-1", "referer": pair.url}
    pair.post("/login/", data=form, headers=headers, cookies={"csrftoken": token})
    lines = [json.loads(line) for line in pair.log.splitlines() if line.startswith("{")]
    assert any(line.get("request_id") == "wrong-password-1" and line["logger"].startswith("axes") for line in lines)
    others = [line for line in pair.log.splitlines() if not line.startswith("{")]
    assert [line.partition(":")[0] for line in others] == ["the site", "the gateway", "Ctrl+C stops it"]


@pytest.mark.parametrize(
    ("path", "area"),
    [
        ("/", "pages"),
        ("/v1/traces", "otlp"),
        ("/v1/chat/completions", "gateway"),
        ("/api/v1/traces/", "api"),
        ("/x", "pages"),
    ],
)
def test_areas_are_few(path: str, area: str):
    assert area_of(path) == area
