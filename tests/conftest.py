"""The cast: Alice rates, Bob is staff, Charlie is a stranger. And agents, traces and keys for them."""

from __future__ import annotations

import gc
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest
from django.contrib import admin
from django.contrib.auth.models import Permission, User
from django.core.cache import cache
from django.db import connection
from django.db.backends.sqlite3.creation import DatabaseCreation
from hypothesis import HealthCheck

from rl.base.records import silent
from rl.lm.score_folder import NAME as SCORES
from rl.models import Agent, ApiKey, Trace
from rl.runs import run
from rl.sandbox import backends
from rl.web import formatting, kept_figures
from rl.web.api.auth import forget
from tests.deeds import remembered, tier_of
from tests.once import made_once
from tests.template import use_template

if TYPE_CHECKING:
    from tests.export.ollama_double import OllamaDouble

hypothesis.settings.register_profile("not timed", deadline=None, suppress_health_check=list(HealthCheck))
hypothesis.settings.load_profile("not timed")
pytest_plugins = ["tests.tiers", "tests.forks", "tests.failed", "tests.missing"]
admin.autodiscover()  # as the addresses of the site do: some tests go through all of its pages


_modules_when_frozen = 0


def pytest_collection_finish() -> None:
    _freeze_what_stays()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    ends_file = nextitem is None or nextitem.path != item.path
    if ends_file or len(sys.modules) > _modules_when_frozen + 200:
        _freeze_what_stays()


def _freeze_what_stays() -> None:
    """Trainers collect garbage several times each: libraries need not be looked through every time."""
    global _modules_when_frozen
    _modules_when_frozen = len(sys.modules)
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    if "PYTEST_XDIST_WORKER" not in os.environ:
        shutil.rmtree(os.environ["RATCHET_TEST_ROOT"], ignore_errors=True)


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings_parallel_suffix: None) -> None:
    if isinstance(connection.creation, DatabaseCreation):
        use_template(connection.creation)


@pytest.fixture(scope="session", autouse=True)
def _signals_are_the_test_runner_s() -> None:
    """A run in this process would take them for itself, and the tests would go on."""
    run.stopped_by_signals = lambda monitor: nullcontext()


@pytest.fixture(scope="session", autouse=True)
def _asking_for_a_sandbox_tries_it() -> None:
    """Also where it was tried before, and its answer is known."""
    backends.why_unavailable = remembered(backends.why_unavailable)


class FormatterHere:
    """As ``rl.web.formatting.FORMATTER``, without a process."""

    def be_ready(self) -> None: ...

    def html_of(self, text: str, seconds: float) -> str:
        from rl.web.formatting_child import format_text

        return format_text(text)


@pytest.fixture(autouse=True)
def _units_format_texts_themselves(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if tier_of(request.node) == "unit":
        monkeypatch.setattr(formatting, "FORMATTER", FormatterHere())


@pytest.fixture(autouse=True)
def _nothing_counted_or_known_yet() -> None:
    """Requests are counted and keys are known by numbers that the next test's rows have again."""
    cache.clear()
    forget()
    for reader in (kept_figures.KINDS, kept_figures.KEPT):
        reader.forget()


@pytest.fixture(autouse=True)
def _nothing_scored_before() -> None:
    """What one test has scored is not read by the next."""
    from django.conf import settings  # not the fixture: some tests have a parameter of that name

    shutil.rmtree(Path(settings.DATA_DIR) / SCORES, ignore_errors=True)


@pytest.fixture(scope="session")
def tiny_base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from rl.lm import tiny_model

    return tiny_model.build(tmp_path_factory.mktemp("base") / "tiny", silent)


IMPATIENT = "I read short chats alone"


@pytest.fixture(scope="session")
def impatient_base(tiny_base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A base model whose template refuses chats of more than three messages, with these words."""
    folder = tmp_path_factory.mktemp("impatient") / "base"
    shutil.copytree(tiny_base, folder)
    template = folder / "chat_template.jinja"
    refusal = "{% if messages | length > 3 %}{{ raise_exception('" + IMPATIENT + "') }}{% endif %}"
    template.write_text(refusal + template.read_text())
    return folder


@pytest.fixture(scope="session")
def smollm2_base() -> Path:
    """SmolLM2, unpacked."""
    from rl.lm import smollm2

    return made_once("smollm2", lambda folder: smollm2.build(folder, silent))


@pytest.fixture(scope="session")
def answering_base(tiny_base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.training import answering

    return answering.build(tiny_base, tmp_path_factory.mktemp("answering") / "base")


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """``tiny_model("llama")``: the directory of that family's model, which tests must not change."""
    from tests.export.tiny_models import FAMILIES, build_model

    root = tmp_path_factory.mktemp("tiny_models")

    def build(family: str) -> Path:
        directory = root / family
        return directory if directory.exists() else build_model(directory, *FAMILIES[family]())

    return build


@pytest.fixture
def data_dir(tmp_path: Path, settings) -> Path:
    """An empty DATA_DIR for one test."""
    settings.DATA_DIR = tmp_path / "data"
    settings.DATA_DIR.mkdir()
    return settings.DATA_DIR


@pytest.fixture
def timed_before(data_dir: Path) -> None:
    """A model is timed once for all tests that estimate a run of it."""
    kept = Path(os.environ["RATCHET_TEST_ROOT"]) / "speeds"
    kept.mkdir(exist_ok=True)
    (data_dir / "speeds").symlink_to(kept)


@pytest.fixture
def alice(db) -> User:
    user = User.objects.create_user("alice", password="alice-rates-answers")
    user.user_permissions.add(Permission.objects.get(codename="add_feedback"))
    return user


@pytest.fixture
def bob(db) -> User:
    return User.objects.create_superuser("bob", password="bob-runs-this-place")


@pytest.fixture
def charlie(db) -> User:
    return User.objects.create_user("charlie", password="charlie-is-a-stranger")


@pytest.fixture
def agent(db) -> Agent:
    return Agent.objects.create(name="support-chat")


def make_trace(agent: Agent, question: str = "Where is my parcel?", response: str = "On its way.", **fields) -> Trace:
    return Trace.objects.create(
        agent=agent, prompt=[{"role": "user", "content": question}], response=response, **fields
    )


@pytest.fixture
def trace(agent: Agent) -> Trace:
    return make_trace(agent)


@pytest.fixture
def secret_key(db) -> str:
    return ApiKey.create(name="server", kind=ApiKey.Kind.SECRET, scopes=ApiKey.Scope.values)[1]


@pytest.fixture
def publishable_key(db) -> str:
    return ApiKey.create(name="shop", kind=ApiKey.Kind.PUBLISHABLE, allowed_origins=["https://shop.example"])[1]


@pytest.fixture
def double(tmp_path: Path, settings) -> Iterator[OllamaDouble]:
    """The Ollama at OLLAMA_URL."""
    from tests.export.ollama_double import ollama_double

    with ollama_double(tmp_path / "blobs") as server:
        settings.OLLAMA_URL = server.url
        yield server
