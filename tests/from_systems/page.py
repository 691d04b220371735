"""Does what a page shows: its commands, its calls and its code, from top to bottom, and compares what comes back."""

import contextlib
import io
import json
import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import CommandError, call_command
from django.test import Client

from rl.base.errors import GateRejected
from rl.base.records import silent
from rl.models import TrainingRun
from rl.runs import run as runs

BLOCK = re.compile(r"```(console|python)\n(.*?)```", re.DOTALL)


def path_of(name: str) -> Path:
    return Path(settings.BASE_DIR) / "docs" / "coming-from" / f"{name}.md"


@dataclass(frozen=True, slots=True)
class Step:
    kind: str
    """console or python."""
    text: str
    shown: str
    """What the page shows below it, with … for what may differ; empty: nothing is shown."""


def steps(page: Path) -> Iterator[Step]:
    for kind, block in BLOCK.findall(page.read_text(encoding="utf-8")):
        if kind == "python":
            yield Step(kind, block, "")
            continue
        for part in re.split(r"^\$ ", block.replace("\\\n", " "), flags=re.MULTILINE)[1:]:
            command, _, shown = part.partition("\n")
            yield Step(kind, command.strip(), shown.strip())


@dataclass
class Reader:
    """Somebody who types what a page shows. The calls go to the site without a server; a run that an answer waits for is
    done here."""

    known: dict[str, str] = field(default_factory=dict)
    """Variables of the shell."""
    answers: list[Any] = field(default_factory=list)
    """What the calls answered, in their order: parsed where it is JSON."""
    before: Callable[[Step], None] = lambda step: None

    def follow(self, page: Path) -> None:
        for step in steps(page):
            self.before(step)
            printed = self._do(step)
            assert matches(step.shown, printed), f"{step.text}\n-> {printed}\nshown: {step.shown}"

    def _do(self, step: Step) -> str:
        if step.kind == "python":
            return printed_by(lambda: exec(compile(step.text, "page", "exec"), {}))
        words = [self._expand(word) for word in shlex.split(step.text)]
        match words[0]:
            case "export":
                name, _, value = words[1].partition("=")
                self.known.setdefault(name, value)
                return ""
            case "python3":
                assert words[1] == "manage.py"
                return self._run(words[2:])
            case "curl":
                return self._call(words[1:])
        raise AssertionError(f"nobody knows how to do: {step.text}")

    def _expand(self, word: str) -> str:
        return re.sub(r"\$(\w+)", lambda name: self.known[name[1]], word)

    def _run(self, words: list[str]) -> str:
        printed = printed_by(lambda: _command(words))
        if key := re.search(r"^sk_\S+", printed, re.MULTILINE):
            self.known["KEY"] = key[0]
        return printed

    def _call(self, words: list[str]) -> str:
        request = _parse(words)
        response = Client(headers=request.headers).generic(
            request.method, request.address.removeprefix(self.known["SITE"]), request.body, request.content_type
        )
        status, body = response.status_code, response.content
        if later := getattr(response, "later", None):
            status, body = _finish(later)
        assert status < 300, body
        text = body.decode()
        self.answers.append(json.loads(text) if text.startswith(('{"', "[")) and "\n{" not in text else text)
        return text


def _command(words: list[str]) -> None:
    """A version that the gate rejects is there all the same, and the reader goes on with it."""
    try:
        call_command(words[0], *words[1:])
    except CommandError as error:
        if error.returncode != GateRejected.exit_code:
            raise


@dataclass
class _Request:
    address: str = ""
    method: str = "GET"
    headers: dict[str, str] = field(default_factory=dict)
    body: str = ""

    @property
    def content_type(self) -> str:
        return self.headers.get("Content-Type", "application/octet-stream")


def _parse(words: list[str]) -> _Request:
    """What curl would send."""
    request, rest = _Request(), iter(words)
    for word in rest:
        match word:
            case "-s":
                pass
            case "-X":
                request.method = next(rest)
            case "-H":
                name, _, value = next(rest).partition(": ")
                request.headers[name] = value
            case "-d":
                request.body = next(rest)
                request.method = "POST" if request.method == "GET" else request.method
            case "-o":
                next(rest)
            case _:
                assert not request.address, f"curl does not know {word}"
                request.address = word
    return request


def _finish(later: Any) -> tuple[int, bytes]:
    run = TrainingRun.objects.get(pk=later.run)
    assert run.claim()
    runs.execute(run, silent)
    return later.render()


def printed_by(work: Callable[[], object]) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        work()
    return out.getvalue()


def matches(shown: str, printed: str) -> bool:
    """Spaces count nothing, and … stands for anything."""
    if not shown:
        return True
    pattern = ".*".join(re.escape("".join(part.split())) for part in shown.split("…"))
    return re.search(pattern, "".join(printed.split()), re.DOTALL) is not None
