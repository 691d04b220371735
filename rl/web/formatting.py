"""The texts of a page as HTML, in bounded time, whatever they are.

Reading Markdown and colouring code can take quadratic time, and a regular expression holds the whole process while it
matches. So a child does it (``rl.web.formatting_child``), where the kernel ends what takes too long. What came of a text is
kept by its digest. Each web process has a child, and results, of its own."""

import atexit
import hashlib
import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import BoundedSemaphore, Event, Lock
from typing import Final

from django.conf import settings
from django.utils.safestring import SafeString, mark_safe

from rl.web.markdown import LONGEST_FORMATTED, show_as_it_is

PAGE_SECONDS: Final = 0.25
"""That a page waits for all of its texts together; what is not there then is shown as it is."""
START_SECONDS: Final = 5.0
"""That pages wait besides until the child has started for the first time: its libraries take half a second to load."""
MOST_WAITING: Final = 4
"""Pages that wait at the same time, which is fewer than a process has threads: the others show as it is what is not kept."""
MOST_KEPT: Final = 5_000
MOST_KEPT_BYTES: Final = 33_554_432
"""Memory of the texts that are kept."""
AS_IT_IS: Final = "Shown as it is: formatting it would take too long."
CHILD: Final = "rl.web.formatting_child"
log = logging.getLogger(__name__)


class Page:
    """The texts of one page, of which the important ones should come first."""

    def __init__(self) -> None:
        self._left = PAGE_SECONDS

    def format(self, text: str) -> SafeString:
        """As ``rl.web.markdown.render``; a text that would take too long as it is, and a line says so."""
        if not text or len(text) > LONGEST_FORMATTED:
            return show_as_it_is(text) if text else SafeString()
        FORMATTER.be_ready()
        began = time.monotonic()
        html = FORMATTER.html_of(text, self._left)
        self._left -= time.monotonic() - began
        return mark_safe(html) if html else show_as_it_is(text, AS_IT_IS)  # noqa: S308  the child has sanitised it


class ResultCache:
    """Results by digest, as far as they fit; those that were not asked for longest go first."""

    def __init__(self) -> None:
        self._lock, self._bytes = Lock(), 0
        self._results: OrderedDict[bytes, str] = OrderedDict()

    def get(self, key: bytes) -> str | None:
        with self._lock:
            if key in self._results:
                self._results.move_to_end(key)
            return self._results.get(key)

    def put(self, key: bytes, html: str) -> None:
        with self._lock:
            self._bytes += sys.getsizeof(html) - sys.getsizeof(self._results.pop(key, None) or "")
            self._results[key] = html
            while len(self._results) > MOST_KEPT or self._bytes > MOST_KEPT_BYTES:
                self._bytes -= sys.getsizeof(self._results.popitem(last=False)[1])


class Formatter:
    """One child, which starts when it is needed first, and one thread, which alone talks to it."""

    def __init__(self) -> None:
        self._kept, self._seats = ResultCache(), BoundedSemaphore(MOST_WAITING)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="formatting")
        self._child: subprocess.Popen[str] | None = None
        self._has_started = Event()

    def be_ready(self) -> None:
        if not self._has_started.is_set() and self._seats.acquire(blocking=False):
            with suppress(TimeoutError):
                self._thread.submit(self._start).result(START_SECONDS)
            self._seats.release()

    def html_of(self, text: str, seconds: float) -> str:
        """Empty for a text that cannot be formatted within the child's limits, or in so many seconds now."""
        key = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
        html = self._kept.get(key)
        if html is not None or seconds <= 0 or not self._seats.acquire(blocking=False):
            return html or ""
        asked = self._thread.submit(self._format, key, text)
        try:
            return asked.result(seconds)
        except TimeoutError:
            asked.cancel()
            return ""
        finally:
            self._seats.release()

    def end_child(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
            child.communicate()

    def _format(self, key: bytes, text: str) -> str:
        """Keeps what came of it, also nothing, where it took too long."""
        if (child := self._start()) is None:
            return ""
        answer = _ask(child, text)
        if not answer.endswith("\n"):
            log.warning("the process that formats texts ended with %d; it is started again", child.wait())
            self.end_child()
            return ""
        html: str = json.loads(answer)
        self._kept.put(key, html)
        return html

    def _start(self) -> subprocess.Popen[str] | None:
        try:
            self._child = child = self._child or _start_child()
        except OSError as error:
            log.warning("the process that formats texts cannot be started: %s", error)
            return None
        if not self._has_started.is_set():
            _ask(child, "")
            self._has_started.set()
        return child


def _start_child() -> subprocess.Popen[str]:
    """It has no variable of ours: no key, no password, no address."""
    return subprocess.Popen(
        [sys.executable, "-m", CHILD],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=settings.BASE_DIR,
        env={},
        text=True,
        start_new_session=True,
    )


def _ask(child: subprocess.Popen[str], text: str) -> str:
    """A line; without its end where the child has ended."""
    assert child.stdin is not None  # noqa: S101  pipes, as it was started
    assert child.stdout is not None  # noqa: S101
    with suppress(OSError):
        child.stdin.write(json.dumps(text) + "\n")
        child.stdin.flush()
        return child.stdout.readline()
    return ""


FORMATTER: Final = Formatter()
atexit.register(FORMATTER.end_child)
