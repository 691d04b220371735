"""Texts that take quadratic time cost a page next to nothing, and no later page anything."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import psutil
import pytest
from pygments.lexers import get_lexer_by_name

from rl.web import formatting
from rl.web.formatting import AS_IT_IS, Formatter, Page, ResultCache
from rl.web.formatting_child import LONGEST_HTML, format_text
from rl.web.markdown import LANGUAGES, LONGEST_FORMATTED, LONGEST_HIGHLIGHTED

pytestmark = pytest.mark.process


ATOMS = [
    "\n",
    " ",
    "\t",
    "\r",
    "\n\t",
    "\\",
    '"\\',
    '"""',
    "'",
    "`",
    "(",
    "[",
    "{",
    "/*",
    "/** @",
    "///",
    "<",
    "<a ",
    "&",
]
ATOMS += [
    "#",
    "@",
    "@@",
    "--",
    "::",
    "a ",
    "a\n",
    "a.",
    "a<b ",
    "a(",
    "${",
    "<<",
    "=",
    "_ ",
    "define a\n",
    "class a ",
    "|",
]
LEXERS = sorted({get_lexer_by_name(name).aliases[0] for name in LANGUAGES.pattern.split("|")})
SLOW = "```java\n" + "\n" * 9_900 + "```"
CPU_SECONDS = 10.0
"""Room for a page of PAGE_SECONDS, of which this process works next to nothing."""


@pytest.fixture
def formatter(monkeypatch) -> Iterator[Formatter]:
    """A new one, as in a process that has just started; pages wait for it however busy the machine is."""
    monkeypatch.setattr(formatting, "PAGE_SECONDS", 60.0)
    made = Formatter()
    monkeypatch.setattr(formatting, "FORMATTER", made)
    yield made
    made.end_child()


def fill(atom: str, length: int) -> str:
    return (atom * (length // len(atom) + 1))[:length]


def blocks(language: str) -> Iterator[str]:
    for atom in ATOMS:
        yield f"```{language}\n{fill(atom, LONGEST_HIGHLIGHTED - 20)}\n```"


def test_texts_are_formatted_and_kept(formatter: Formatter):
    assert Page().format("**yes**\n") == "<p><strong>yes</strong></p>\n"
    assert formatter._child
    formatter._child.kill()
    formatter._child.wait()
    assert Page().format("**yes**\n") == "<p><strong>yes</strong></p>\n"
    assert Page().format("") == ""


def test_the_first_page_waits_until_the_child_has_loaded_its_libraries(formatter: Formatter):
    formatter.be_ready()
    assert formatter._has_started.is_set()
    assert formatter._child
    assert formatter._child.poll() is None


def one_that_says_nothing() -> subprocess.Popen[str]:
    command = [sys.executable, "-c", "import time; time.sleep(600)"]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True)


def test_a_child_that_never_starts_holds_a_page_no_longer_than_that_time(formatter: Formatter, monkeypatch):
    monkeypatch.setattr(formatting, "START_SECONDS", 0.1)
    monkeypatch.setattr(formatting, "PAGE_SECONDS", 0.1)
    monkeypatch.setattr(formatting, "_start_child", one_that_says_nothing)
    assert AS_IT_IS in Page().format("*one*")
    assert not formatter._has_started.is_set()


def test_a_text_that_takes_too_long_is_shown_as_it_is_and_the_child_goes_on_with_the_next(formatter: Formatter):
    html = Page().format(f"<b> &\n\n{SLOW}")
    assert html.startswith('<p class="plain">&lt;b&gt; &amp;\n\n```java\n')
    assert html.endswith(f'<p class="more">{AS_IT_IS}</p>')
    child = formatter._child
    assert "<em>" in Page().format("*next*")
    assert child
    assert formatter._child is child
    assert child.poll() is None


def test_what_took_too_long_once_is_not_tried_again(formatter: Formatter):
    Page().format(SLOW)
    formatter.end_child()
    assert AS_IT_IS in Page().format(SLOW)
    assert formatter._child is None


def test_a_child_that_was_killed_is_replaced_and_nothing_of_it_is_kept(formatter: Formatter):
    Page().format("one")
    assert formatter._child
    os.killpg(formatter._child.pid, signal.SIGKILL)
    assert AS_IT_IS in Page().format("*two*")
    assert Page().format("*two*") == "<p><em>two</em></p>\n"


def test_a_child_that_does_nothing_holds_a_page_no_longer_than_its_time(formatter: Formatter, monkeypatch):
    Page().format("one")
    assert formatter._child
    os.killpg(formatter._child.pid, signal.SIGSTOP)
    monkeypatch.setattr(formatting, "PAGE_SECONDS", 0.2)
    page, asked = Page(), []
    submit = formatter._thread.submit
    monkeypatch.setattr(formatter._thread, "submit", lambda *given: asked.append(given) or submit(*given))
    assert all(AS_IT_IS in page.format(f"text {number}") for number in range(500))
    assert len(asked) == 1
    os.killpg(formatter._child.pid, signal.SIGKILL)


def test_so_many_pages_wait_and_the_others_go_on(formatter: Formatter, monkeypatch):
    Page().format("one")
    assert formatter._child
    os.killpg(formatter._child.pid, signal.SIGSTOP)
    waiting = [threading.Thread(target=Page().format, args=(f"text {n}",)) for n in range(formatting.MOST_WAITING)]
    for thread in waiting:
        thread.start()
    while formatter._seats.acquire(blocking=False):  # until all of them have a seat
        formatter._seats.release()
        time.sleep(0.01)
    assert AS_IT_IS in Page().format("not kept")
    assert Page().format("one") == "<p>one</p>\n"
    os.killpg(formatter._child.pid, signal.SIGCONT)
    for thread in waiting:
        thread.join()


def test_the_child_has_no_variable_and_no_file_of_the_site(formatter: Formatter):
    Page().format("one")
    assert formatter._child
    child = psutil.Process(formatter._child.pid)
    for process in (child, *child.children()):
        assert not {*process.environ()} - {"LC_CTYPE"}
        assert process.open_files() == []
        assert process.net_connections() == []


def test_all_of_the_child_ends_with_who_asks_it(formatter: Formatter):
    Page().format("one")
    assert formatter._child
    (worker,) = psutil.Process(formatter._child.pid).children()
    child, formatter._child = formatter._child, None
    with child:  # closes its pipes, and waits
        pass
    assert child.returncode == 0
    assert not worker.is_running()


def test_results_are_kept_within_a_count_and_a_size(monkeypatch):
    monkeypatch.setattr(formatting, "MOST_KEPT", 3)
    kept = ResultCache()
    for number in range(4):
        kept.put(bytes([number]), "x")
    kept.get(bytes([1]))
    kept.put(b"new", "x")
    assert [kept.get(bytes([number])) for number in range(4)] == [None, "x", None, "x"]
    monkeypatch.setattr(formatting, "MOST_KEPT_BYTES", 1_000)
    kept.put(b"long", "x" * 2_000)
    kept.put(b"short", "x")
    assert [kept.get(key) for key in (b"long", b"new", b"short")] == [None, None, "x"]


def test_a_text_that_would_become_a_thousand_times_as_long_is_shown_as_it_is():
    columns = 4_000
    table = "|a" * columns + "\n" + "|-" * columns + "\n" + "|\n" * ((LONGEST_FORMATTED - 4 * columns) // 2 - 1)
    assert len(format_text(table)) <= LONGEST_HTML
    assert format_text("&" * 30_000)


@pytest.mark.parametrize("language", LEXERS)
def test_no_lexer_holds_a_page(formatter: Formatter, language: str):
    began, page = time.process_time(), Page()
    for text in blocks(language):
        assert page.format(text)
    assert page._left > -CPU_SECONDS
    assert time.process_time() - began < CPU_SECONDS


@pytest.mark.parametrize(
    "atom", [*ATOMS, "*a **a ", "![", "[[]()", "[<https://a>](", "- ", "> ", "|a", "~~a", "*_", "1. "]
)
def test_no_markdown_holds_a_page(formatter: Formatter, atom: str):
    began, page = time.process_time(), Page()
    assert page.format(fill(atom, LONGEST_FORMATTED))
    assert page.format(fill(atom, 10 * LONGEST_FORMATTED))
    assert page._left > -CPU_SECONDS
    assert time.process_time() - began < CPU_SECONDS
