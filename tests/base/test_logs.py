import json
import logging
import subprocess
import sys

import pytest

from rl.base import logs
from rl.base.logs import JsonLines


def line_of(message: str, *args: object, exc_info=None, name: str = "rl.x") -> dict:
    record = logging.LogRecord(name, logging.WARNING, __file__, 1, message, args, exc_info)
    text = JsonLines().format(record)
    assert "\n" not in text
    return json.loads(text)


def test_a_line_says_when_how_bad_where_and_what():
    line = line_of("run %s died", 12)
    assert line.pop("time").endswith("+00:00")
    assert line == {"level": "WARNING", "logger": "rl.x", "message": "run 12 died"}


def test_what_it_is_about_stands_there_as_long_as_it_is():
    with logs.about(logs.request_id, "r-1"), logs.about(logs.run_id, 12), logs.about(logs.trace_id, "t"):
        line = line_of("x")
    assert (line["request_id"], line["run_id"], line["trace_id"]) == ("r-1", "12", "t")
    assert "request_id" not in line_of("x")


@pytest.mark.parametrize("text", ["a\nb\r\nc", '{"level": "INFO"}', "\u2028\x00\x1b[31m", "é 你", "\ud800"])
def test_nothing_that_is_logged_makes_a_second_line_or_breaks_the_first(text: str):
    assert line_of("%s", text)["message"] == text


def test_an_exception_is_in_its_line():
    try:
        raise ValueError("bad\nvalue")
    except ValueError:
        line = line_of("it failed", exc_info=sys.exc_info())
    assert line["message"] == "it failed"
    assert line["exception"].startswith("Traceback")
    assert line["exception"].endswith("ValueError: bad\nvalue")


@pytest.mark.process
def test_the_setting_makes_every_logger_write_so(tmp_path):
    program = """if True:
        import django; django.setup()
        import logging; from rl.base import logs
        from django_q.conf import logger
        with logs.about(logs.run_id, 7):
            logger.warning("from the queue"); logging.getLogger("uvicorn.error").error("from the server")
    """
    from tests.test_settings import PRODUCTION

    environment = {**PRODUCTION, "LOG_FORMAT": "json", "DATA_DIR": str(tmp_path), "ENV_FILE": "/dev/null"}
    variables = {"DJANGO_SETTINGS_MODULE": "backend.settings", "PATH": "/usr/bin", **environment}
    result = subprocess.run([sys.executable, "-c", program], env=variables, capture_output=True, text=True, timeout=60)
    lines = [json.loads(line) for line in result.stderr.splitlines()]
    assert [(line["message"], line["run_id"]) for line in lines] == [("from the queue", "7"), ("from the server", "7")]
