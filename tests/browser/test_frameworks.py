"""The examples of the rating page's docs, built as their frameworks' users build them, rating on the real site."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest
from django.conf import settings
from playwright.sync_api import Locator, Page, expect

from rl.base.locks import exclusive_lock
from rl.models import Agent, ApiKey, Feedback, Trace
from tests.browser.conftest import LiveSite
from tests.browser.servers import QuietHandler, serve
from tests.conftest import make_trace
from tests.missing import missing

pytestmark = [pytest.mark.process, pytest.mark.slow]  # npm installs first

ROOT = Path(settings.BASE_DIR)
HERE = Path(__file__).parent / "frameworks"
EXAMPLES = ("react-19.jsx", "react-18.jsx", "vue.vue", "preact.jsx", "svelte.svelte")
"""As they follow each other in the docs."""
FRAMEWORKS = [Path(name).stem for name in EXAMPLES]
TEXTS = ("It left our warehouse.", "Name the neighbour in the app.", "It waits for seven days.")
Shown = list[dict[str, str]]


def run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def packages() -> Path:
    """A folder in which the lock file is installed, and the widget's own package: once for all processes."""
    if shutil.which("npm") is None:
        missing("npm", "nodejs npm")
    folder = Path(os.environ["RATCHET_TEST_ROOT"]) / "frameworks"
    with exclusive_lock(folder.with_suffix(".lock")):
        if not (folder / "node_modules" / "ratchet-feedback").exists():
            shutil.copytree(HERE, folder, dirs_exist_ok=True)
            run("npm", "ci", "--ignore-scripts", "--prefer-offline", cwd=folder)
            install_widget(folder)
    return folder


def install_widget(folder: Path) -> None:
    """As ``npm install`` of what ``npm pack`` makes would: with no other file than the package names."""
    source = folder / "copy" / "deploy" / "npm"
    shutil.copytree(ROOT / "deploy" / "npm", source, dirs_exist_ok=True)
    (folder / "copy" / "static").mkdir()
    (folder / "copy" / "static" / "rl").symlink_to(ROOT / "static" / "rl")
    run("node", "build.mjs", cwd=source)
    target = folder / "node_modules" / "ratchet-feedback"
    target.mkdir()
    for name in ("package.json", *json.loads((source / "package.json").read_text())["files"]):
        shutil.copy(source / name, target)


@pytest.fixture(scope="module")
def pages(packages: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one script for each framework, and the example that it was built from."""
    folder = tmp_path_factory.mktemp("pages")
    text = (ROOT / "docs" / "rating.md").read_text().split("### In a framework\n")[1].split("\n### ")[0]
    codes = re.findall(r"```(?:jsx|vue|svelte)\n(.*?)```", text, re.DOTALL)
    for name, code in zip(EXAMPLES, codes, strict=True):
        (folder / name).write_text(code)
    run("node", HERE / "build.mjs", packages, folder, folder, cwd=folder)
    return folder


class Shop(ThreadingHTTPServer):
    """A page of somebody's, on an origin of its own: ``/vue`` is the one that Vue draws."""

    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), ShopHandler)
        self.folder, self.words, self.inside = folder, dict[str, str](), ""
        """``words``: what stands in the examples, and what it stands for here. ``inside``: what a server rendered."""

    @property
    def origin(self) -> str:
        return f"http://localhost:{self.server_port}"


class ShopHandler(QuietHandler):
    server: Shop

    def do_GET(self) -> None:
        name = self.path.strip("/")
        if not name.endswith(".js"):
            html = '<!doctype html><html lang="en"><title>Shop</title><link rel="icon" href="data:,"><div id="root">'
            html += f'{self.server.inside}</div><script type="module" src="/{name}.js"></script>'
            return self.reply(200, html.encode(), Content_Type="text/html; charset=utf-8")
        script = (self.server.folder / name).read_text()
        for word, meaning in self.server.words.items():
            script = script.replace(word, meaning)
        return self.reply(200, script.encode(), Content_Type="text/javascript; charset=utf-8")


@pytest.fixture
def shop(pages: Path, live_site: LiveSite) -> Iterator[Shop]:
    for shop in serve(Shop(pages)):
        _, key = ApiKey.create(name="shop", kind=ApiKey.Kind.PUBLISHABLE, allowed_origins=[shop.origin])
        shop.words = {"https://ratchet.example.com": live_site.api, "pk_…": key}
        yield shop


@pytest.fixture
def answers(agent: Agent, live_site: LiveSite) -> Shown:
    traces: list[Trace] = [make_trace(agent, f"question {text}", text) for text in TEXTS]
    return [{"trace": str(trace.pk), "text": text} for trace, text in zip(traces, TEXTS, strict=True)]


class Watched:
    """A page with what it logs, and how often it speaks with the API."""

    def __init__(self, page: Page) -> None:
        self.page, self.logged, self.sent = page, list[str](), 0
        page.on("console", lambda message: self.logged.append(message.text))
        page.on("request", lambda request: self.count(request.method, request.url))

    def count(self, method: str, url: str) -> None:
        self.sent += method == "POST" and "/api/v1/feedback/" in url

    def show(self, answers: Shown) -> None:
        self.page.evaluate("(answers) => window.show(answers)", answers)

    def article(self, text: str) -> Locator:
        return self.page.get_by_role("article").filter(has_text=text)


Open = Callable[[str], Watched]


@pytest.fixture
def open_page(page: Page, shop: Shop) -> Open:
    def open_it(name: str) -> Watched:
        watched = Watched(page)
        page.goto(f"{shop.origin}/{name}")
        return watched

    return open_it


def current() -> list[tuple[str, float | None, list[str], str]]:
    rows = Feedback.objects.filter(is_current=True, kind=Feedback.Kind.RATING).select_related("trace")
    return [(row.trace.response, row.value, row.tags, row.notes) for row in rows.order_by("id")]


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_example_rates_and_keeps_all_while_its_list_is_reordered(
    open_page: Open, answers: Shown, framework: str
) -> None:
    page = open_page(framework)
    page.show(answers)
    article = page.article(TEXTS[0])
    article.get_by_role("button", name="Not helpful").dblclick()
    expect(article.get_by_role("status")).to_have_text("Thank you, saved.")
    article.get_by_role("textbox").fill("Half of it is filler.")
    before = page.sent
    page.show(answers[::-1])
    expect(page.page.get_by_role("article").last).to_contain_text(TEXTS[0])
    page.show([answers[1], answers[0], answers[2]])
    page.show([answers[0]])
    assert page.sent == before == 1
    expect(article.get_by_role("button", name="Not helpful")).to_have_attribute("aria-pressed", "true")
    expect(article.get_by_role("status")).to_have_text("Thank you, saved.")
    expect(article.get_by_role("textbox")).to_have_value("Half of it is filler.")
    article.get_by_role("checkbox", name="Too long").check()
    article.get_by_role("button", name="Send").click()
    expect(article.get_by_role("textbox")).to_be_hidden()
    page.page.wait_for_function("!JSON.parse(localStorage['ratchet-feedback-queue']).length")
    assert current() == [(TEXTS[0], 0.0, ["Too long"], "Half of it is filler.")]
    assert "rated 0" in page.logged


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_who_leaves_the_page_at_once_has_rated(open_page: Open, answers: Shown, framework: str) -> None:
    page = open_page(framework)
    page.show(answers)
    page.article(TEXTS[1]).get_by_role("button", name="Helpful", exact=True).click()
    page.page.evaluate("window.leave()")
    expect(page.page.get_by_role("article")).to_have_count(0)
    page.page.wait_for_function("!JSON.parse(localStorage['ratchet-feedback-queue']).length")
    assert current() == [(TEXTS[1], 1.0, [], "")]
    assert page.sent == 1


def test_a_page_that_a_server_rendered_is_taken_over(open_page: Open, pages: Path, shop: Shop, answers: Shown) -> None:
    shop.inside = run("node", pages / "server.cjs", json.dumps(answers), cwd=pages).strip()
    for word, meaning in shop.words.items():
        shop.inside = shop.inside.replace(word, meaning)
    page = open_page("hydrated")
    page.show(answers)
    article = page.article(TEXTS[2])
    article.get_by_role("button", name="Not helpful").click()
    expect(article.get_by_role("status")).to_have_text("Thank you, saved.")
    expect(article.get_by_role("checkbox", name="Too long")).to_be_visible()
    assert current() == [(TEXTS[2], 0.0, [], "")]


@pytest.mark.parametrize("project", ["tsconfig.json", "tsconfig.react-18.json"])
def test_typescript_knows_the_element_in_every_framework(packages: Path, project: str) -> None:
    run(packages / "node_modules" / ".bin" / "tsc", "--project", project, cwd=packages)
