import ssl

import pytest

from rl.base.errors import UsageError
from rl.environments.tools.web_search.backend import LARGEST_ANSWER, SearchEndpoint
from tests.environments.tools.web_search.search_double import Reply, SearchDouble

pytestmark = pytest.mark.process


def ask(double: SearchDouble, timeout: float = 5.0):
    return SearchEndpoint.parse(f"{double.url}/x").exchange("GET", {"q": "a b"}, {}, timeout)


@pytest.mark.parametrize(
    "url",
    [
        "https://api.tavily.com/search",
        "https://search.example:8443",
        "http://localhost:8080/search",
        "http://127.0.0.1/search",
        "http://[::1]:8080/search",
    ],
)
def test_https_addresses_and_those_of_this_machine_are_taken(url):
    assert str(SearchEndpoint.parse(url)).rstrip("/") == url


@pytest.mark.parametrize(
    "url",
    [
        "http://search.example/",
        "http://127.0.0.1.evil.example/",
        "http://localhost@evil.example/",
        "https://user:secret@search.example/",
        "ftp://localhost/",
        "file:///etc/passwd",
        "search.example",
        "https://",
        "https://search.example/?key=secret",
        "https://search.example/#a",
        "https://search.example:port/",
        "https://se arch.example/",
        "https://search.example/a b",
        "https://[::1",
        "https://-/",
    ],
)
def test_every_other_address_is_refused(url):
    with pytest.raises(UsageError, match="endpoint") as refusal:
        SearchEndpoint.parse(url)
    assert "secret" not in str(refusal.value)


def test_a_redirect_is_an_answer_and_is_not_followed(double):
    double.script = [Reply(302, b"", {"Location": f"{double.url}/elsewhere"})]
    assert ask(double).status == 302
    assert [request.path for request in double.requests] == ["/x"]


def test_proxies_are_not_used(double, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    double.script = [Reply(200, [])]
    assert ask(double).body == b"[]"


def test_no_more_than_the_largest_answer_is_read(double):
    double.script = [Reply(200, b" " * (3 * LARGEST_ANSWER))]
    assert len(ask(double).body) == LARGEST_ANSWER + 1


@pytest.mark.parametrize("behaviour", ["hang", "drip"])
def test_the_time_is_limited_as_a_whole(double, behaviour):
    double.script = [behaviour]
    assert isinstance(ask(double, timeout=0.2).error, TimeoutError)


def test_a_server_that_hangs_up_and_one_that_is_not_there_are_errors(double):
    double.script = ["close"]
    assert isinstance(ask(double).error, ConnectionError)
    assert isinstance(SearchEndpoint.parse("http://127.0.0.1:9/").exchange("GET", {}, {}, 5).error, ConnectionError)


def test_https_is_spoken_where_the_address_says_so(double):
    answer = SearchEndpoint.parse(double.url.replace("http:", "https:")).exchange("GET", {}, {}, 5)
    assert isinstance(answer.error, ssl.SSLError)
    assert double.requests == []


def test_a_post_sends_json(double):
    double.script = [Reply(200, [])]
    SearchEndpoint.parse(f"{double.url}/x").exchange("POST", {"q": "é", "on": True}, {"X-Key": "k"}, 5)
    assert double.requests[0].params == {"q": "é", "on": True}
    assert double.requests[0].headers["X-Key"] == "k"
