"""A PostgreSQL cluster of one's own, that may be killed."""

import os
import pwd
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from crash_site import free_port

NAME = "ratchet"


@dataclass
class Cluster:
    folder: Path
    port: int = field(default_factory=lambda: free_port())

    @property
    def url(self) -> str:
        return f"postgres://{NAME}@127.0.0.1:{self.port}/{NAME}"

    @property
    def command(self) -> list[str]:
        options = {
            "port": self.port,
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "shared_buffers": "64MB",
        }
        return [
            *_as_postgres(),
            _program("postgres"),
            "-D",
            str(self.folder),
            *[f"--{name}={value}" for name, value in options.items()],
        ]

    def create(self) -> None:
        """Raises CalledProcessError."""
        self.folder.mkdir(mode=0o700)
        if os.getuid() == 0:
            shutil.chown(self.folder, "postgres")
        _run(
            [
                *_as_postgres(),
                _program("initdb"),
                "-D",
                str(self.folder),
                "-U",
                NAME,
                "-A",
                "trust",
                "-E",
                "UTF8",
                "--no-sync",
            ]
        )

    def create_database(self) -> bool:
        """False while the server is not up yet."""
        command = [_program("createdb"), "-h", "127.0.0.1", "-p", str(self.port), "-U", NAME, NAME]
        process = subprocess.run(command, capture_output=True, text=True)
        return process.returncode == 0 or "already exists" in process.stderr


def _as_postgres() -> list[str]:
    """PostgreSQL refuses to run as root."""
    if os.getuid() != 0:
        return []
    user = pwd.getpwnam("postgres")
    return ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups", "--"]


def _program(name: str) -> str:
    """Debian keeps them beside the path."""
    beside = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return shutil.which(name) or str(beside[-1] if beside else name)


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, capture_output=True)
