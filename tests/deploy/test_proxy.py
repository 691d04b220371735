"""The example for nginx in docs/setup.md lets through what the settings allow, and not much more."""

import re
from typing import Final

import pytest
from django.conf import settings

from rl.web.front.answers import LONGEST_WAIT
from rl.web.front.uploads import largest_body

EXAMPLE: Final = re.findall(r"```nginx\n(.*?)```", (settings.BASE_DIR / "docs/setup.md").read_text(), re.DOTALL)
LOCATION: Final = re.compile(r"location (~ )?(\S+) \{(.*?)\n    \}", re.DOTALL)
MEGABYTE: Final = 2**20


def value_of(directive: str, block: str) -> str:
    return re.findall(rf"^\s*{directive} (.*);", block, re.MULTILINE)[0]


def outside() -> str:
    """What holds for all locations."""
    (example,) = EXAMPLE
    return LOCATION.sub("", example)


def location_of(path: str) -> str:
    """As nginx chooses: the first regular expression that fits, else the longest beginning."""
    rows = LOCATION.findall(EXAMPLE[0])
    fitting = [block for sign, text, block in rows if sign and re.search(text, path)]
    beginnings = [(len(text), block) for sign, text, block in rows if not sign and path.startswith(text)]
    return fitting[0] if fitting else max(beginnings)[1]


@pytest.mark.parametrize("end", ["", "/"])
@pytest.mark.parametrize(
    "path",
    [
        *("/api/v1/traces", "/v1/chat/completions", "/v1/traces", "/api/public/otel/v1/traces"),
        *("/v1/files", "/v1/uploads/upload_1/parts", "/v1/uploads"),
    ],
)
def test_a_body_that_the_site_takes_comes_through(path: str, end: str):
    allowed = (
        settings.MAX_OTLP_REQUEST_BYTES
        if path.removeprefix("/api/public/otel") == "/v1/traces"
        else settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    )
    allowed = largest_body({"path": path + end, "method": "POST"}) or allowed
    block = location_of(path + end)
    size = value_of("client_max_body_size", block if "client_max_body_size" in block else outside())
    assert allowed <= int(size.removesuffix("m")) * MEGABYTE < allowed + MEGABYTE
    assert value_of("proxy_pass", block) == "http://127.0.0.1:8000"


def test_an_answer_has_the_time_that_the_site_gives_it():
    seconds = int(value_of("proxy_read_timeout", outside()).removesuffix("s"))
    assert seconds > max(settings.GATEWAY_TIMEOUT, LONGEST_WAIT)
    assert (value_of("proxy_http_version", outside()), value_of("proxy_set_header Connection", outside())) == (
        "1.1",
        '""',
    )


def test_no_location_forgets_the_headers():
    """nginx hands headers down to a location that sets none."""
    assert [block for *_, block in LOCATION.findall(EXAMPLE[0]) if "proxy_set_header" in block] == []
    assert {"Host", "X-Forwarded-Proto", "X-Forwarded-For"} <= set(re.findall(r"proxy_set_header (\S+)", outside()))


@pytest.mark.parametrize("path", ["/v1/files", "/v1/uploads/upload_1/parts"])
def test_files_of_strangers_fill_no_disk_of_nginx(path: str):
    assert value_of("proxy_request_buffering", location_of(path)) == "off"
