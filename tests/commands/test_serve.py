import json
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command, load_command_class

from rl.management.commands import serve
from tests.commands.site import MANAGE, Site
from tests.ports import reserve_port
from tests.waiting import until


def start(site: Site, *options: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(MANAGE), "serve", *options],
        env=site.environment(**environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""


@pytest.mark.process
@pytest.mark.slow
def test_site_and_gateway_answer_and_end_at_a_signal(tmp_path: Path):
    """Before there are tables, too: the gateway says that it knows nobody."""
    port = reserve_port()
    process = start(
        Site(tmp_path / "data"),
        "--port",
        str(port),
        "--json",
        "--workers",
        "2",
        DEBUG="0",
        HTTPS="0",
        ALLOWED_HOSTS="127.0.0.1",
    )
    url = f"http://127.0.0.1:{port}"
    until(lambda: get(f"{url}/healthz") == (200, "ok\n"), 60)
    assert json.loads(get(f"{url}/v1/models")[1])["error"]["code"] == "missing_api_key"
    assert get(f"{url}/nothing-here")[0] == 404
    process.send_signal(signal.SIGTERM)
    output, errors = process.communicate(timeout=60)
    assert json.loads(output)["gateway"] == f"{url}/v1"
    assert "Traceback" not in errors
    assert "cannot be read" in errors
    until(lambda: get(url)[0] == 0)


@pytest.mark.process
def test_a_port_that_is_taken_is_said(tmp_path: Path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        process = start(Site(tmp_path / "data"), "--port", str(taken.getsockname()[1]))
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "choose another with --port" in errors


@pytest.mark.parametrize("option", ["--port=0", "--port=http", "--workers=0", "--workers=x"])
def test_what_is_no_port_or_number_is_refused(option: str):
    parser = load_command_class("rl", "serve").create_parser("manage.py", "serve")
    parser.called_from_command_line = False
    with pytest.raises(CommandError, match=r"not a port|invalid"):
        parser.parse_args([option])


@pytest.mark.parametrize(
    ("https", "header", "is_said"), [(True, None, True), (True, ("HTTP_X", "https"), False), (False, None, False)]
)
def test_a_site_whose_pages_cannot_be_opened_says_what_to_set(settings, monkeypatch, capsys, https, header, is_said):
    settings.HTTPS, settings.SECURE_PROXY_SSL_HEADER = https, header
    started: list[str] = []
    monkeypatch.setattr(serve, "require_free", lambda port, host: None)
    monkeypatch.setattr(serve, "_allow_connections", lambda most: None)
    monkeypatch.setattr(serve, "clear_leftovers", lambda: None)
    monkeypatch.setattr(serve.dumps, "migrations", list)
    monkeypatch.setattr(serve.uvicorn, "run", lambda application, **options: started.append(application))
    call_command("serve", skip_checks=True)
    errors = capsys.readouterr().err
    assert started == ["backend.asgi:application"]
    assert ("BEHIND_PROXY=1" in errors and "HTTPS=0" in errors and errors.count("\n") == 1) is is_said
    assert is_said or errors == ""
