"""Site and gateway by uvicorn."""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from tempfile import TemporaryDirectory

import uvicorn
from django.conf import settings
from django.core.management.base import ALL_CHECKS
from django.db import DatabaseError, connection

from rl.management.base import RatchetCommand
from rl.management.options import CommandOptions, option, port_number, require_free
from rl.operations import dumps
from rl.operations.data_files import clear_leftovers
from rl.operations.metrics import FOLDER_VARIABLE

STOP_SECONDS = 3
"""How long answers that are still being streamed may go on; then they are cut off, and stored as far as they came."""
OTHER_FILES = 500
"""Open ones that are not connections of clients: the database, servers of models, files."""
KEEP_ALIVE_SECONDS = 65
"""Longer than clients and proxies keep an idle connection, so that none sends into one that is being closed."""

_NO_PAGE_OPENS = (
    "no page opens: HTTPS=1 redirects each to https, which this server does not speak. Set BEHIND_PROXY=1 behind a proxy "
    "that encrypts, or HTTPS=0 in a network of your own"
)


class Options(CommandOptions):
    host: str = option(default="127.0.0.1", help="the address to listen on (127.0.0.1)")
    port: int = option(type=port_number, default=8000, help="(8000)")
    workers: int = option(default=1, choices=range(1, 65), metavar="1-64", help="processes (1)")


class Command(RatchetCommand):
    help = "Serves the site, the API and the gateway in one process, or in several, until it is stopped."
    requires_system_checks = ALL_CHECKS

    def run(self, options: Options) -> None:
        host, port = options.host, options.port
        require_free(port, host)
        with suppress(DatabaseError):  # whoever asks whether the site is ready is told then
            dumps.require_whole(dumps.migrations())
        connection.close()
        clear_leftovers()
        address = f"http://{f'[{host}]' if ':' in host else host}:{port}{settings.FORCE_SCRIPT_NAME or ''}"
        _allow_connections(settings.MAX_CONNECTIONS)
        lines = [f"the site: {address}/", f"the gateway: {address}/v1", "Ctrl+C stops it"]
        self.result({"site": f"{address}/", "gateway": f"{address}/v1", "pid": os.getpid()}, lines=lines)
        if settings.HTTPS and settings.SECURE_PROXY_SSL_HEADER is None:
            self.stderr.write(_NO_PAGE_OPENS)
        with _counting_together(options.workers):
            uvicorn.run(
                "backend.asgi:application",
                host=host,
                port=port,
                workers=options.workers,
                http="rl.web.front.connections:Connection",
                ws="none",
                lifespan="on",
                log_config=None,
                access_log=settings.DEBUG,
                proxy_headers=False,  # the site reads them itself, as far as NUM_PROXIES and BEHIND_PROXY say
                server_header=False,
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=STOP_SECONDS,
            )


@contextmanager
def _counting_together(workers: int) -> Iterator[None]:
    """A folder in which the processes put what they count, so that whichever is asked for /metrics knows of all."""
    if workers == 1:
        yield
        return
    with TemporaryDirectory(prefix="ratchet-metrics-") as folder:
        os.environ[FOLDER_VARIABLE] = folder
        yield


def _allow_connections(most: int) -> None:
    """Each is an open file, of which a process may have 1024 in many shells."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = most + OTHER_FILES
    if soft < files and soft != resource.RLIM_INFINITY:
        files = files if hard == resource.RLIM_INFINITY else min(files, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, files), hard))
