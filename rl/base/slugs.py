"""Names and paths that come from outside: who may be called what, what may become part of a file name, and what may not
leave its folder."""

import re
from pathlib import Path

from rl.base.errors import UsageError

# ASCII letters and digits at both ends: no hidden file, no option ("-x"), no trailing dot that Windows would drop.
_SLUG = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62}[A-Za-z0-9])?")
# Ends of lines and control characters, Unicode's too, and what turns the direction of writing: none can be seen.
_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_DEVICE = re.compile(r"(?:con|prn|aux|nul|conin\$|conout\$|com[0-9]|lpt[0-9])(?:\..*)?", re.IGNORECASE)

VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
"""The name of an environment variable."""


def check_name(value: str, what: str) -> str:
    """The value itself; raises UsageError, which calls it ``what``, unless it is one line that reads as it is written."""
    if match := _UNSEEN.search(value):
        raise UsageError(f"{what} contains U+{ord(match[0]):04X}: a name is one line, without control characters")
    return value


def one_line(value: str) -> str:
    """With a space for each character that no name may have."""
    return _UNSEEN.sub(" ", value)


def check_slug(value: str, what: str = "name") -> str:
    """The value itself; raises UsageError, which calls it ``what``, unless it is safe as a file or folder name."""
    if not isinstance(value, str) or not _SLUG.fullmatch(value):
        raise UsageError(
            f"{what} {value!r} is not usable: write 1 to 64 of the letters a-z, digits, '.', '_' and '-', "
            "starting and ending with a letter or a digit"
        )
    if ".." in value:
        raise UsageError(f"{what} {value!r} is not usable: it must not contain '..'")
    if _DEVICE.fullmatch(value):
        raise UsageError(f"{what} {value!r} is not usable: Windows reserves it for a device")
    return value


def inside(root: Path, path: Path | str) -> Path:
    """``path``, taken relative to ``root``, with every link followed; raises UsageError if it leaves ``root``."""
    home = root.resolve()
    try:
        resolved = (home / path).resolve()
    except (OSError, ValueError, RuntimeError) as error:  # a loop of links, a NUL character
        raise UsageError(f"path {str(path)!r} is not usable: {error}") from error
    if not resolved.is_relative_to(home):
        raise UsageError(f"path {str(path)!r} leaves {root}; choose one inside it")
    return resolved


def printable(name: str) -> str:
    """For a terminal: names of files and classes may hold escape sequences, and bytes that are not text."""
    return "".join(character if character.isprintable() else "\ufffd" for character in name)
