"""Which of the two answers: the gateway or the site."""

import pytest

from rl.web.front.application import area_of, is_for_gateway, speaks_openai


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("POST", "/v1/chat/completions", True),
        ("GET", "/v1/models/ft:tiny:ratchet::1", True),
        ("DELETE", "/v1/models/ft:tiny:ratchet::1", False),
        ("POST", "/v1/files", False),
        ("POST", "/v1/files/", False),
        ("GET", "/v1/filesystem", True),
        ("GET", "/v1/fine_tuning/jobs/ftjob-1", False),
        ("POST", "/v1/traces", False),
        ("GET", "/v1/nothing", True),
        ("GET", "/", False),
    ],
)
def test_the_site_answers_for_files_jobs_spans_and_deletions(method: str, path: str, expected: bool):
    assert is_for_gateway({"method": method, "path": path}) is expected


def test_what_is_below_v1_has_errors_of_its_own():
    assert [speaks_openai(path) for path in ("/v1/files", "/v1/models/x", "/v1/traces", "/api/v1/traces/")] == [
        True,
        True,
        False,
        False,
    ]
    assert area_of("/v1/fine_tuning/jobs") == "tuning"
