"""DATA_DIR is for its owner alone, whoever writes in it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rl import checks
from tests.commands.site import MANAGE, Site

pytestmark = pytest.mark.process


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def load_settings(data: Path, then: str = "", **more: str) -> None:
    """As every command, server and child does first; from a shell whose files are for everybody."""
    program = f"from django.conf import settings; settings.DATA_DIR; {then}"
    variables = Site(data).environment(**more)
    subprocess.run([sys.executable, "-c", program], cwd=MANAGE.parent, env=variables, umask=0o022, check=True)


def test_what_is_written_is_for_its_owner_alone(tmp_path: Path):
    data = tmp_path / "data"
    load_settings(
        data,
        "from django.db import connection; connection.cursor().execute('CREATE TABLE one (two)');"
        "(settings.DATA_DIR / 'models').mkdir(); (settings.DATA_DIR / 'models' / 'log').touch(); import os; os._exit(0)",
    )
    modes = {path.name: mode(path) for path in (data, *data.rglob("*"))}
    beside = {"db.sqlite3-wal": 0o600, "db.sqlite3-shm": 0o600}
    assert modes == {"data": 0o700, "db.sqlite3": 0o600, **beside, "models": 0o700, "log": 0o600}


def test_a_folder_with_our_database_that_everybody_could_enter_is_closed_and_one_opened_for_a_group_is_not(tmp_path):
    for name, was, is_now in (("everybody", 0o755, 0o700), ("group", 0o750, 0o750)):
        data = tmp_path / name
        data.mkdir()
        data.chmod(was)
        (data / "db.sqlite3").touch()
        load_settings(data)
        assert mode(data) == is_now


def test_a_folder_that_may_hold_what_is_not_ours_is_left_as_it_is(tmp_path: Path):
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o755)
    load_settings(shared)
    assert mode(shared) == 0o755


def test_check_names_what_is_open_and_the_command_that_closes_it(data_dir: Path, settings, tmp_path: Path, monkeypatch):
    database, env = tmp_path / "elsewhere.sqlite3", tmp_path / ".env"
    for path in (database, env):
        path.touch()
        path.chmod(0o640)
    settings.ENV_PATH = env
    monkeypatch.setitem(settings.DATABASES, "default", {"ENGINE": "django.db.backends.sqlite3", "NAME": str(database)})
    data_dir.chmod(0o755)
    messages = checks.data_is_for_its_owner_alone()
    assert {message.id for message in messages} == {"rl.W002"}
    assert [message.hint.partition(": ")[2] for message in messages] == [
        f"chmod -R go= {data_dir}",
        f"chmod go= {env}",
        f"chmod go= {database}",
    ]
    for message in messages:
        subprocess.run(message.hint.partition(": ")[2].split(), check=True)
    assert checks.data_is_for_its_owner_alone() == []


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_static_files_are_for_everybody(tmp_path: Path, settings, umask: int):
    from django.core.management import call_command

    settings.STATIC_ROOT = tmp_path / "static"
    settings.STATICFILES_DIRS = [tmp_path / "own"]
    settings.STORAGES = {
        **settings.STORAGES,
        "staticfiles": {"BACKEND": "whitenoise.storage.CompressedStaticFilesStorage"},
    }
    settings.STATICFILES_FINDERS = ["django.contrib.staticfiles.finders.FileSystemFinder"]
    (tmp_path / "own" / "rl").mkdir(parents=True)
    (tmp_path / "own" / "rl" / "page.css").write_text("a { color: red }\n" * 100)
    before = os.umask(umask)
    try:
        call_command("collectstatic", "--noinput", verbosity=0)
        assert os.umask(umask) == umask
    finally:
        os.umask(before)
    modes = {path.name: mode(path) for path in settings.STATIC_ROOT.rglob("*")}
    assert modes.pop("rl") == 0o755
    assert set(modes) >= {"page.css", "page.css.gz"}
    assert set(modes.values()) == {0o644}
