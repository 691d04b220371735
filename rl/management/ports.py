"""Port numbers, and whether one is free."""

from __future__ import annotations

import argparse
import socket

from rl.base.errors import UsageError


def port_number(text: str) -> int:
    """Reads the number of a port, as a type of argparse."""
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: a number from 1 to 65535")
    return int(text)


def require_free(port: int, host: str = "127.0.0.1") -> None:
    """Raises UsageError when another program listens there, or the address is not one of this machine."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            reason = error.strerror or str(error)
            raise UsageError(f"port {port} of {host} cannot be used ({reason}); choose another with --port") from error
