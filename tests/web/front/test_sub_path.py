"""A site at https://example.org/ratchet: nothing that it says leads out of /ratchet, passed on by the proxy or not."""

import re
import shutil
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import httpx
import pytest
from django.conf import settings

from rl.web.front.application import below_site
from tests.commands.site import Site
from tests.web.front.server import Server, served

ROOT = "/ratchet"
SITE_URL = f"https://example.org{ROOT}"
ADDRESSES = {"href", "src", "action", "formaction", "api", "poster"}
FOLLOWED = {"a": "href", "link": "href", "script": "src", "img": "src", "iframe": "src"}
SENT = ("/admin/logout/", "/files/")
"""Addresses that end the walk's session, or that send files which the records of this site lack."""


class Links(HTMLParser):
    """``all``: every address of a page, also those that scripts read; ``followed``: those that a browser may ask for."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.all: set[str] = set()
        self.followed: set[str] = set()
        self.feed(page)
        self.all |= set(re.findall(r'"(/[\w/.-]+)"', page))  # in documents that scripts read

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            if value and (name in ADDRESSES or (name.startswith("data-") and value.startswith("/"))):
                self.all.add(value)
                if FOLLOWED.get(tag) == name:
                    self.followed.add(value)


@pytest.fixture(scope="module")
def site(prepared, tmp_path_factory) -> Iterator[Server]:
    own = Site(tmp_path_factory.mktemp("sub-path") / "data")
    shutil.copytree(prepared[0].data, own.data)
    with served(own, prepared[1], DEBUG="1", ALLOWED_HOSTS="127.0.0.1", SITE_URL=SITE_URL) as server:
        yield server


@pytest.fixture
def browser(site: Server) -> Iterator[httpx.Client]:
    """Signed in, with what the sign-in set."""
    with httpx.Client(base_url=site.url, timeout=60, headers={"Referer": site.url}) as client:
        asked = client.get(f"{ROOT}/runs/")
        assert (asked.status_code, asked.headers["location"]) == (302, f"{ROOT}/login/?next={ROOT}/runs/")
        client.get(asked.headers["location"])
        form = {"username": "bob", "password": "bob-runs-this-place", "next": f"{ROOT}/runs/"}
        form["csrfmiddlewaretoken"] = client.cookies["csrftoken"]
        answer = client.post(f"{ROOT}/login/", data=form)
        assert (answer.status_code, answer.headers["location"]) == (302, f"{ROOT}/runs/")
        yield client


def kind_of(address: str) -> str:
    """The same for pages that differ by a number, or by what is asked of them."""
    return re.sub(r"\d+|[0-9a-f-]{36}", "0", urlsplit(address).path)


@pytest.mark.process
def test_no_page_leads_out_of_the_path(site: Server, browser: httpx.Client):
    waiting, seen, pages, outside, failed = [f"{ROOT}/"], set(), 0, set(), {}
    while waiting:
        address = waiting.pop()
        if kind_of(address) in seen or any(part in address for part in SENT):
            continue
        seen.add(kind_of(address))
        answer = browser.get(address, follow_redirects=True)
        if answer.status_code >= 400:
            failed[address] = answer.status_code
        if not answer.headers.get("content-type", "").startswith("text/html"):
            continue
        pages += 1
        links = Links(answer.text)
        base = f"{site.url}{urlsplit(str(answer.url)).path}"
        for link in links.all:
            whole = urlsplit(urljoin(base, link))
            is_here = f"{whole.scheme}://{whole.netloc}" in (site.url, "https://example.org")
            if is_here and not whole.path.startswith(f"{ROOT}/") and whole.path != ROOT:
                outside.add(f"{link} on {address}")
            elif is_here and link in links.followed:
                waiting.append(f"{whole.path}?{whole.query}" if whole.query else whole.path)
    assert (sorted(outside), failed) == ([], {})
    assert pages > 60, "the walk has not come far"
    assert {f"{ROOT}/admin/", f"{ROOT}/try/", f"{ROOT}/static/rl/base.css"} <= seen


@pytest.mark.process
def test_cookies_are_for_the_path_alone(browser: httpx.Client):
    kept = {cookie.name: cookie.path for cookie in browser.cookies.jar}
    assert {"sessionid", "csrftoken"} < set(kept)
    assert set(kept.values()) == {f"{ROOT}/"}


@pytest.mark.process
def test_the_api_the_gateway_and_the_widget_are_below_it(site: Server):
    texts = [{"prompt": [{"role": "user", "content": str(number)}], "response": "yes"} for number in range(3)]
    for text in texts:
        sent = site.post(f"{ROOT}/api/v1/traces/", json={"agent": "support-chat", **text}, headers=site.authorization)
        assert sent.status_code == 201
    listed = site.get(f"{ROOT}/api/v1/traces/?limit=1", headers=site.authorization).json()
    assert urlsplit(listed["next"]).path == f"{ROOT}/api/v1/traces/"
    models = site.get(f"{ROOT}/v1/models", headers=site.authorization)
    assert (models.status_code, "data" in models.json()) == (200, True)
    assert site.get(f"{ROOT}/v1/files", headers=site.authorization).json()["data"] == []
    assert site.get(f"{ROOT}/static/rl/ratchet-feedback.js").status_code == 200


@pytest.mark.process
def test_links_of_commands_begin_with_it(site: Server):
    site.site.run("rating_queue", "create", "--agent", "support-chat", "--name", "all", SITE_URL=SITE_URL)
    queues = site.site.json("rating_queue", "list", SITE_URL=SITE_URL)["queues"]
    assert f"{SITE_URL}/rate/support-chat/all/" in [queue["address"] for queue in queues]


@pytest.mark.process
def test_a_proxy_may_take_the_path_off(site: Server):
    assert [site.get(path).status_code for path in ("/healthz", f"{ROOT}/healthz", "/static/rl/base.css")] == [200] * 3
    page = site.get("/login/")
    assert f'href="{ROOT}/static/rl/base.css"' in page.text
    assert site.get("/runs/").headers["location"] == f"{ROOT}/login/?next={ROOT}/runs/"


@pytest.mark.parametrize(
    ("path", "below"),
    [("/ratchet", "/"), ("/ratchet/", "/"), ("/ratchet/runs/", "/runs/"), ("/ratchets/", "/ratchets/"), ("/", "/")],
)
def test_the_path_is_taken_off_as_a_whole(settings, path: str, below: str):
    settings.FORCE_SCRIPT_NAME = ROOT
    assert below_site({"path": path, "method": "GET"}) == {"path": below, "method": "GET"}
    settings.FORCE_SCRIPT_NAME = ""
    assert below_site({"path": path})["path"] == path


_ROOTED = {
    ".html": re.compile(r"""\b(?:href|src|action|formaction|api|data-[\w-]+)\s*=\s*["']?/(?!/)"""),
    ".js": re.compile(
        r"""(?:fetch|Request|URL|location\.assign|location\.replace|open|import|from)\s*\(?\s*["'`]/(?!/)|\.href\s*=\s*["'`]/"""
    ),
    ".css": re.compile(r"""url\(\s*["']?/(?!/)"""),
    ".py": re.compile(r"""(?:href|src|action)=\\?["']/(?!/)|\bredirect\(f?["']/|HttpResponseRedirect\(f?["']/"""),
}


def test_no_address_below_the_site_is_written_by_hand():
    """Templates ask ``url`` and ``static``, scripts are given addresses or lie beside what they load."""
    base = Path(settings.BASE_DIR)
    files = [file for name in ("templates", "static/rl", "rl", "backend") for file in (base / name).rglob("*.*")]
    files = [file for file in files if file.suffix in _ROOTED]
    assert {file.suffix for file in files} == set(_ROOTED)
    assert [str(file.relative_to(base)) for file in files if _ROOTED[file.suffix].search(file.read_text())] == []
