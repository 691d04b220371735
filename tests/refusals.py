"""What a command says to a file that means harm: one line, an exit code of 1 to 4, in bounded memory and time."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.core.management import call_command
from django.core.management.base import CommandError

MORE_MEMORY = 3 * 2**30
"""Bytes of address space that a command may take beside what the process has: the libraries reserve much of it."""


class NothingSaid(AssertionError):
    """The command did what it was asked to."""


def refusal(command: str, *arguments: object) -> str:
    """The command's one line. Fails where it does something else, or says more."""
    try:
        with limited():
            call_command(command, *map(str, arguments), verbosity=0)
    except CommandError as error:
        message, code = str(error), error.returncode
    else:
        raise NothingSaid(f"{command} takes {arguments}")
    assert 1 <= code <= 4, message
    assert message.strip(), "it says nothing"
    assert len(message.splitlines()) == 1, message
    assert len(message) < 2000, message
    return message


@contextmanager
def limited(more: int = MORE_MEMORY) -> Iterator[None]:
    """What asks for more memory gets MemoryError."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + more, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
