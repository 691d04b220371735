from datetime import UTC, datetime, timedelta

import pytest
from django.db import DatabaseError
from django.test import Client, RequestFactory
from django.utils import timezone
from django_q.models import OrmQ, Task
from prometheus_client.parser import text_string_to_metric_families
from rest_framework.settings import api_settings

from rl.collect.feedback.write import rate
from rl.models import Agent, Trace, TrainingRun
from rl.web.client_address import DIGITS, address_digest
from tests.admin.records import make_loop

pytestmark = pytest.mark.django_db


def read(client: Client, **labels: str) -> dict[str, float]:
    answer = client.get("/metrics")
    assert answer.status_code == 200
    families = text_string_to_metric_families(answer.content.decode())
    return {
        sample.name + "".join(f" {value}" for value in sample.labels.values()): sample.value
        for family in families
        for sample in family.samples
        if family.name.startswith("ratchet_")
    }


@pytest.mark.database
def test_how_things_stand(client: Client, agent: Agent):
    make_loop(agent)
    found = read(client)
    assert found["ratchet_database_up"] == 1
    assert found["ratchet_disk_free_bytes"] > 0
    assert found["ratchet_runs succeeded"] == TrainingRun.objects.filter(state="succeeded").count()
    assert found["ratchet_runs running"] == 0
    assert found["ratchet_gate_verdicts promote"] == 1
    assert found["ratchet_webhook_messages waiting"] + found["ratchet_webhook_messages delivered"] == 1
    assert {"ratchet_experiments draft", "ratchet_deployments ollama", "ratchet_info 0.1.0"} <= set(found)


def test_ratings_are_counted_as_they_come(client: Client, trace: Trace):
    before = read(client)["ratchet_ratings_total"]
    for rater in ("a", "b"):
        rate(trace, rater=rater, scale="thumb", value=1.0, source="test")
    assert read(client)["ratchet_ratings_total"] >= before + 2


def test_the_queue_its_length_and_its_age(client: Client):
    assert read(client)["ratchet_queue_tasks"] == 0
    assert "ratchet_queue_last_success_seconds" not in read(client)
    now = timezone.now()
    OrmQ.objects.create(key="ratchet", payload="x", lock=now - timedelta(seconds=90))
    OrmQ.objects.create(key="ratchet", payload="x", lock=now + timedelta(seconds=90))
    Task.objects.create(id="1", name="x", func="f", started=now, stopped=now - timedelta(seconds=40), success=True)
    found = read(client)
    assert found["ratchet_queue_tasks"] == 1
    assert 90 <= found["ratchet_queue_oldest_seconds"] < 120
    assert 40 <= found["ratchet_queue_last_success_seconds"] < 70


def test_a_database_that_does_not_answer_is_a_number_too(client: Client, monkeypatch):
    def fail(*args: object) -> None:
        raise DatabaseError("gone")

    monkeypatch.setattr("rl.operations.metrics._count_by", fail)
    found = read(client)
    assert found["ratchet_database_up"] == 0
    assert found["ratchet_disk_free_bytes"] > 0


def test_it_costs_few_queries(client: Client, agent: Agent, django_assert_max_num_queries):
    make_loop(agent)
    with django_assert_max_num_queries(14):
        client.get("/metrics")


# --- who may read it -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("address", ["203.0.113.7", "10.0.0.5", "", "unknown"])
def test_without_a_token_other_machines_may_not(address: str):
    answer = Client(REMOTE_ADDR=address).get("/metrics")
    assert answer.status_code == 403
    assert b"ratchet_" not in answer.content


@pytest.mark.parametrize("header", ["x-forwarded-for", "forwarded", "via", "x-real-ip", "x-forwarded-proto"])
def test_what_a_proxy_of_this_machine_passes_on_is_not_from_this_machine(client: Client, header: str):
    assert client.get("/metrics", headers={header: "127.0.0.1"}).status_code == 403


def test_where_a_proxy_is_configured_nothing_is_from_this_machine(client: Client, monkeypatch, settings):
    monkeypatch.setattr(api_settings, "NUM_PROXIES", 1)
    assert client.get("/metrics").status_code == 403
    monkeypatch.setattr(api_settings, "NUM_PROXIES", 0)
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    assert client.get("/metrics").status_code == 403


def test_with_a_token_whoever_has_it_may(settings):
    settings.METRICS_TOKEN = "only-for-prometheus"
    for client in (Client(), Client(REMOTE_ADDR="203.0.113.7")):
        assert client.get("/metrics").status_code == 401
        for wrong in ("Bearer x", "Bearer é", "Basic only-for-prometheus", "only-for-prometheus"):
            assert client.get("/metrics", headers={"authorization": wrong}).status_code == 401
        right = {"authorization": "Bearer only-for-prometheus"}
        assert client.get("/metrics", headers=right).status_code == 200


@pytest.mark.database
def test_prometheus_asks_by_ip_and_without_https(client: Client, settings):
    settings.ALLOWED_HOSTS, settings.SECURE_SSL_REDIRECT = ["ratchet.example"], True
    assert client.get("/metrics", headers={"host": "10.0.0.5:8000"}).status_code == 200


def test_nothing_is_sent_to_it(client: Client):
    assert client.post("/metrics").status_code == 405


@pytest.mark.parametrize("address", ["/healthz", "/login/", "/api/v1/traces/", "/static/rl/ratchet-feedback.js", "/no"])
def test_every_answer_names_its_request(client: Client, address: str, settings):
    settings.WHITENOISE_USE_FINDERS = True
    first, second = client.get(address)["X-Request-ID"], client.get(address)["X-Request-ID"]
    assert len(first) == len(second) == 32
    assert first != second


def test_the_name_that_a_proxy_gave_is_kept(client: Client):
    assert client.get("/healthz", headers={"x-request-id": "01JD-req_7.a"})["X-Request-ID"] == "01JD-req_7.a"


@pytest.mark.parametrize("given", ["", "a b", "x" * 65, "a\nSet-Cookie: x", "é", "{}"])
def test_what_is_no_short_word_is_replaced(client: Client, given: str):
    assert len(client.get("/healthz", headers={"x-request-id": given})["X-Request-ID"]) == 32


@pytest.fixture
def today(monkeypatch) -> list[datetime]:
    moments = [datetime(2026, 6, 1, 12, tzinfo=UTC)]
    monkeypatch.setattr("rl.web.client_address.timezone.now", lambda: moments[-1])
    return moments


def digest(address: str) -> str:
    return address_digest(RequestFactory().get("/", REMOTE_ADDR=address))


def test_the_hash_of_an_address_tells_one_from_another_and_names_none(today: list[datetime], settings):
    here = digest("192.0.2.7")
    assert (len(here), here) == (DIGITS, digest("192.0.2.7"))
    assert here != digest("192.0.2.8")
    assert digest("2001:db8::1") == digest("2001:db8::ffff") != digest("2001:db8:1::1")
    assert digest("") == ""
    settings.SECRET_KEY = "another"
    assert here != digest("192.0.2.7")


def test_it_is_another_one_each_day(today: list[datetime]):
    here = digest("192.0.2.7")
    today.append(datetime(2026, 6, 2, 0, 0, 1, tzinfo=UTC))
    assert here != digest("192.0.2.7")
