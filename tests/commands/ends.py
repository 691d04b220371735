"""How commands of one site end, such as those that are refused: all in one process, for each start costs more than that."""

import json

from tests.commands.site import Site

_PROGRAM = """
import io, json
from contextlib import redirect_stderr
from backend.command_line import CommandLine
ends = []
for command in json.loads({commands!r}):
    told, code = io.StringIO(), 0
    with redirect_stderr(told):
        try:
            CommandLine(["manage.py", *command]).execute()
        except SystemExit as end:
            code = end.code
    ends.append((code, told.getvalue()))
print("\\n" + json.dumps(ends))
"""


def ends_of(site: Site, *commands: tuple[str, ...], **environment: str) -> list[tuple[int, str]]:
    """The exit code of each, and what it wrote to stderr. An exception that none of them expects fails here."""
    program = _PROGRAM.format(commands=json.dumps(commands))
    output = site.run("shell", "--no-imports", "-c", program, **environment).stdout
    return [(code, told) for code, told in json.loads(output.splitlines()[-1])]
