"""Installations as an operator has them, on either database, with something of everything that a backup must hold."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg

from tests.commands.site import Site
from tests.missing import missing
from tests.postgres import OnPostgres, made

ENGINES = ("sqlite", "postgresql")
FILLED = """
import uuid
from django.core.management import call_command
from django.conf import settings
from django.contrib.auth.models import User
from rl.models import *
call_command("migrate", verbosity=0)
agent = Agent.objects.create(name="support-chat")
key = ApiKey.create(name="server", kind="secret")[0]
trace = Trace.objects.create(agent=agent, prompt=[{"role": "user", "content": "Where is my parcel?"}], response="Here.")
Feedback.objects.create(agent=agent, trace=trace, kind="rating", rater="user:ann", scale="thumb", raw_value=1, value=1)
version = ModelVersion.objects.create(agent=agent, name="v1", base_model="tiny", feedback_count=1)
adapter = settings.DATA_DIR / "models/support-chat/v1/adapter"
adapter.mkdir(parents=True)
(adapter / "adapter_model.safetensors").write_bytes(bytes(range(256)) * 4000)
path = "models/support-chat/v1/adapter"
Artifact.objects.create(version=version, kind="adapter", path=path, size_bytes=1024000, sha256="0" * 64)
run = TrainingRun.objects.create(agent=agent, method="dpo", version=version, state="succeeded")
(run.directory / "checkpoint-4").mkdir(parents=True)
(run.directory / "checkpoint-4/optimizer.pt").write_bytes(b"state")
run.log_path.write_text("step 1\\n")
pending = settings.DATA_DIR / "gateway/pending"
pending.mkdir(parents=True)
(pending / f"{uuid.uuid4()}.json").write_text('{"answer": "not in the database yet"}')
for name in ("locks", "servers", "answer_scores"):
    (settings.DATA_DIR / name).mkdir()
    (settings.DATA_DIR / name / "x").touch()
User.objects.create_superuser("bob", password="bob-runs-this-place")
"""


class Plain(Site):
    """Starts ``manage.py`` as it is started anywhere: without the training libraries that forks would have."""

    def fork(self, *arguments: str, **environment: str) -> Any:
        return self.start(*arguments, **environment)


class PlainOnPostgres(Plain, OnPostgres):
    pass


@contextmanager
def empty(engine: str, data: Path) -> Iterator[Plain]:
    """A DATA_DIR and a database without any table."""
    data.mkdir()
    with ExitStack() as stack:
        if engine == "sqlite":
            yield Plain(data)
        else:
            yield PlainOnPostgres(data, stack.enter_context(made(postgres_server())))


@contextmanager
def copied(site: Plain, data: Path) -> Iterator[Plain]:
    """The same again, to be changed."""
    if not isinstance(site, PlainOnPostgres):
        yield Plain(site.copy(data).data)
        return
    name = urlsplit(site.url).path[1:]
    site.copy(data)
    with made(postgres_server(), template=name) as url:
        yield PlainOnPostgres(data, url)


def postgres_server() -> str:
    if url := os.environ.get("TEST_POSTGRES_URL"):
        return url
    missing("PostgreSQL (TEST_POSTGRES_URL names it)", "postgresql")
    raise AssertionError


def tables(site: Plain) -> dict[str, list[str]]:
    """Every row of people's data, as text."""
    if isinstance(site, PlainOnPostgres):
        with psycopg.connect(site.url) as database:
            names = database.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
    else:
        names = site.query("SELECT name FROM sqlite_master WHERE type = 'table'")
    kept = sorted(name for (name,) in names if name.startswith(("rl_", "auth_")))
    return {name: sorted(map(str, site.query(f'SELECT * FROM "{name}"'))) for name in kept}
