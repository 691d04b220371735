"""Whatever the body, the answer is a problem that says what is wrong: never a 500, never a row that breaks lists."""

import json

import pytest

from rl.models import Feedback, Trace
from tests.web.api.conftest import Caller, assert_problem

ADDRESSES = [
    "/api/v1/traces/",
    "/api/v1/feedback/",
    "/api/v1/feedback/retract/",
    "/api/v1/ratings/",
    "/api/v1/ratings/sync/",
    "/api/decisions/",
    "/api/decisions/d1/feedback/",
]
BODIES: dict[str, tuple[bytes, int, str]] = {
    "empty": (b"", 400, ""),
    "blank": (b"   ", 400, "line 1"),
    "null": (b"null", 400, ""),
    "number": (b"7", 400, ""),
    "text": (b'"hello"', 400, ""),
    "true": (b"true", 400, ""),
    "empty list": (b"[]", 400, ""),
    "cut off": (b'{"trace": \n "x', 400, "line 2, column 2"),
    "two documents": (b"{} {}", 400, "column 4"),
    "single quotes": (b"{'a': 1}", 400, "column 2"),
    "not UTF-8": (b'{"notes": "\xff"}', 400, "byte 11"),
    "UTF-16": ('{"a": 1}'.encode("utf-16"), 400, "byte 0"),
    "byte order mark": (b"\xef\xbb\xbf{}", 400, "line 1"),
    "raw control character": (b'{"notes": "a\x00b"}', 400, "column 13"),
    "NUL": (b'{"notes": "a\\u0000b"}', 400, "/notes contains a NUL"),
    "NUL in a name": (b'{"a\\u0000b": 1}', 400, "NUL"),
    "NUL deep inside": (b'{"details": {"a": [1, {"b": "\\u0000"}]}}', 400, "/details/a/1/b"),
    "lone surrogate": (b'{"notes": "\\ud800"}', 400, "surrogate"),
    "lone low surrogate": (b'{"tags": ["\\udfff"]}', 400, "/tags/0"),
    "top-level surrogate": (b'"\\ud800"', 400, "surrogate"),
    "NaN": (b'{"value": NaN}', 400, "NaN"),
    "Infinity": (b'{"value": -Infinity}', 400, "Infinity"),
    "overflowing float": (b'{"value": 1e999}', 400, "/value contains a number that is not finite"),
    "20 digits": (b'{"value": 99999999999999999999}', 400, "64 bits"),
    "2^63": (b'{"value": 9223372036854775808}', 400, "64 bits"),
    "a million digits": (b'{"value": ' + b"9" * 1_000_000 + b"}", 400, "64 bits"),
    "65 levels": (b'{"details": ' + b"[" * 64 + b"]" * 64 + b"}", 400, "64 levels"),
    "a thousand levels": (b"[" * 1000 + b"]" * 1000, 400, "64 levels"),
    "half a million levels": (b"[" * 500_000 + b"]" * 500_000, 400, "64 levels"),
    "half a million open brackets": (b"[" * 500_000, 400, ""),
    "too large": (b'"' + b"x" * 3_000_000 + b'"', 413, "too large"),
}
pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize("name", BODIES)
def test_it_is_refused_with_a_reason(server: Caller, address: str, name: str):
    body, status, says = BODIES[name]
    assert_problem(server.raw(address, body), status, says)
    assert not Trace.objects.exists()
    assert not Feedback.objects.exists()


@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize(
    "content_type",
    ["application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/plain", "text/json", "nonsense"],
)
def test_a_form_post_which_needs_no_preflight_is_refused(server: Caller, address: str, content_type: str):
    assert_problem(server.raw(address, b'{"trace": "x"}', content_type), 415)


def test_what_looks_hostile_but_is_text_is_kept_as_it_is(server: Caller, trace: Trace):
    notes = "<script>alert(1)</script> '; DROP TABLE x; -- {{ 7*7 }} \u202e \U0001f600 \\u0000 \ufffe"
    sent = {
        "trace": str(trace.pk),
        "rater": "../../etc",
        "scale": "score",
        "value": 0.5,
        "notes": notes,
        "tags": ["=1+1"],
    }
    assert server.post("/api/v1/feedback/", sent).status_code == 201
    assert Feedback.objects.get().notes == notes
    assert server.get("/api/v1/feedback/").json()["results"][0]["notes"] == notes


def test_64_levels_and_64_bits_are_still_fine(server: Caller, trace: Trace):
    inner = json.loads("[" * 61 + "]" * 61)
    sent = {"agent": trace.agent.name, "prompt": "q", "response": "a", "details": {"deep": inner, "n": 2**63 - 1}}
    answer = server.post("/api/v1/traces/", sent)
    assert answer.status_code == 201, answer.content
    assert Trace.objects.get(pk=answer.json()["id"]).details == sent["details"]


def test_a_body_may_say_utf_8(server: Caller):
    assert_problem(server.raw("/api/v1/traces/", b"{}", "application/json; charset=utf-8"), 400, "/agent")
