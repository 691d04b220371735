"""A real Chromium, and this site as others reach it.

A test fails on any console message of level error and on any uncaught exception in a page.
"""

import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client
from django.test.testcases import LiveServerThread
from django.utils import timezone
from django_q.models import Success
from PIL import Image
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from rl.models import Agent
from tests.missing import missing
from tests.serving.gateway.upstream_double import UpstreamDouble, upstream_double
from tests.waiting import PATIENCE_SECONDS
from tests.web.front.in_thread import front_in_thread

# Playwright's synchronous API keeps an event loop on this thread, which Django would take for an async caller.
os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"

SHELL = "chromium-headless-shell"
"""The same browser without windows, of Debian's package: it takes half the processor time."""
CHROMIUM = os.environ.get("CHROMIUM") or (SHELL if shutil.which(SHELL) else "chromium")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
IMAGES = Path(settings.BASE_DIR) / "docs" / "images"


class Console:
    """What went wrong in the pages of one test. ``allow`` names what the test provokes on purpose."""

    def __init__(self) -> None:
        self.errors: list[str] = []
        self._allowed: list[str] = []

    def allow(self, pattern: str) -> None:
        self._allowed.append(pattern)

    def unexpected(self) -> list[str]:
        return [error for error in self.errors if not any(re.search(pattern, error) for pattern in self._allowed)]

    def watch(self, context: BrowserContext) -> None:
        context.on("console", lambda m: self.errors.append(f"{m.text} [{m.location}]") if m.type == "error" else None)
        context.on("weberror", lambda e: self.errors.append(f"uncaught: {e.error}"))


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Gone after these tests: others run event loops of their own on this thread."""
    executable = shutil.which(CHROMIUM)
    if executable is None:
        missing(f"the browser {CHROMIUM!r} (CHROMIUM names another)", "chromium-headless-shell")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=executable, args=ARGUMENTS)
        yield chromium
        chromium.close()


@pytest.fixture
def console() -> Console:
    return Console()


@pytest.fixture(autouse=True)
def _pages_wait_for_formatted_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rl.web.formatting.PAGE_SECONDS", PATIENCE_SECONDS)
    monkeypatch.setattr("rl.web.pages.talking.FORMAT_SECONDS", PATIENCE_SECONDS)


@pytest.fixture
def context(browser: Browser, console: Console, transactional_db: None) -> Iterator[BrowserContext]:
    """A profile of its own: no cookie and no localStorage of another test. Its pages are closed before the database is
    emptied under them."""
    context = browser.new_context(viewport={"width": 1100, "height": 800}, locale="en-US", reduced_motion="reduce")
    context.set_default_timeout(1000 * PATIENCE_SECONDS)
    expect.set_options(timeout=1000 * PATIENCE_SECONDS)
    console.watch(context)
    yield context
    context.close()
    assert console.unexpected() == []


@pytest.fixture
def page(context: BrowserContext) -> Page:
    return context.new_page()


@dataclass(frozen=True)
class LiveSite:
    """One server under two names, which a browser takes for two sites."""

    url: str
    """What a person opens."""
    api: str
    """SITE_URL: where widgets come from and ratings go to."""


@pytest.fixture
def live_site(transactional_db: None, settings: Any) -> Iterator[LiveSite]:
    """Unlike ``live_server`` it serves static files as in production, through WhiteNoise: pages of other origins may
    load the widget."""
    settings.STATIC_ROOT = settings.STATICFILES_DIRS[0]
    settings.WHITENOISE_USE_FINDERS = True
    settings.MEDIA_URL = (
        "/media/"  # with an empty one Django's test server answers every path from the working directory
    )
    thread = LiveServerThread("localhost", static_handler=lambda application: application)  # type: ignore[arg-type]
    thread.daemon = True
    thread.start()
    thread.is_ready.wait()
    if thread.error:
        raise thread.error
    settings.SITE_URL = f"http://127.0.0.1:{thread.port}"
    yield LiveSite(url=f"http://localhost:{thread.port}", api=settings.SITE_URL)
    thread.terminate()


@pytest.fixture(scope="module")
def upstream() -> Iterator[UpstreamDouble]:
    with upstream_double() as double:
        yield double


@pytest.fixture
def site(transactional_db: None, data_dir, settings, agent: Agent, context: BrowserContext) -> Iterator[LiveSite]:
    """Its pages are closed before it ends: they may still be asking it for something."""
    settings.STATIC_ROOT = settings.STATICFILES_DIRS[0]
    settings.WHITENOISE_USE_FINDERS = True
    with front_in_thread(settings) as url:
        yield LiveSite(url=url, api=url)
        for page in context.pages:
            page.close()


def sign_in(context: BrowserContext, site: LiveSite, user: User) -> None:
    client = Client()
    client.force_login(user)
    cookie = client.cookies[settings.SESSION_COOKIE_NAME].value
    context.add_cookies([{"name": settings.SESSION_COOKIE_NAME, "value": cookie, "url": site.url}])


def look_again(page: Page) -> None:
    """Has an open page ask what is new, as it does when somebody comes back to it."""
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")


@pytest.fixture
def staff(context: BrowserContext, live_site: LiveSite, bob: User) -> BrowserContext:
    sign_in(context, live_site, bob)
    return context


@pytest.fixture
def staff_page(staff: BrowserContext, page: Page) -> Page:
    return page


@pytest.fixture
def queue_at_work(db: None) -> None:
    now = timezone.now()
    Success.objects.create(
        id="minute", name="minute", func="rl.tasks.supervise_runs", started=now, stopped=now, success=True
    )


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """docs/images with UPDATE_SCREENSHOTS=1, else the test's own folder."""
    folder = IMAGES if os.environ.get("UPDATE_SCREENSHOTS") == "1" else tmp_path
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture
def screenshot(pictures: Path) -> Callable[[Page, str], Path]:
    """``screenshot(page, name)``, into the folder of pictures."""

    def save(page: Page, name: str) -> Path:
        path = pictures / f"{name}.png"
        page.screenshot(path=path)
        assert path.stat().st_size > 0
        return path

    return save


COLOURS = 64
"""Of an animated picture: text on plain ground needs no more."""


class Film:
    """Looks at a page, one after the other, as one animated picture."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.frames: list[Image.Image] = []
        self.seconds: list[float] = []

    def take(self, page: Page, seconds: float) -> None:
        """``seconds``: for how long this is seen."""
        self.frames.append(Image.open(BytesIO(page.screenshot())).convert("RGB"))
        self.seconds.append(seconds)

    def save(self, name: str) -> Path:
        path, palette = self.folder / f"{name}.gif", self.frames[-1].quantize(COLOURS)
        first, *others = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in self.frames]
        first.save(
            path,
            save_all=True,
            append_images=others,
            duration=[int(1000 * s) for s in self.seconds],
            loop=0,
            optimize=True,
        )
        return path


@pytest.fixture
def film(pictures: Path) -> Film:
    return Film(pictures)
