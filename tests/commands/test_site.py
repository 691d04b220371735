"""The tests' own server."""

import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.commands.site import Site, serving

pytestmark = pytest.mark.process
TALKATIVE = """
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        for stream in (sys.stdout, sys.stderr):
            print("x" * 200_000, file=stream, flush=True)
        self.send_response(200)
        self.end_headers()

    def log_message(self, *arguments):
        pass

HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


class Talkative(Site):
    def start(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", TALKATIVE, arguments[-1]]
        pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(command, text=True, start_new_session=True, **pipes)


def test_a_server_that_says_much_is_not_held_up(tmp_path: Path):
    with serving(Talkative(tmp_path)) as url:
        for _ in range(3):
            assert urllib.request.urlopen(url, timeout=60).status == 200
