import asyncio
import subprocess
import sys

import pytest

from rl.environments.tools.mcp.session import Tail

pytestmark = pytest.mark.process


def written(code: str) -> str:
    tail = Tail()
    with tail.file:
        subprocess.run([sys.executable, "-c", f"import os, sys; {code}"], stderr=tail.file, check=False)
    return asyncio.run(tail.last_line())


def test_the_last_line_of_much_is_kept():
    assert written("sys.stderr.write('noise\\n' * 200_000 + 'the end\\n\\n')") == "the end"
    assert written("os.write(2, b'\\x1b[31mbad \\xff\\n')") == "[31mbad �"
    assert written("sys.stderr.write('o' * 9000)") == "o" * 300
    assert written("pass") == ""


def test_a_child_that_holds_the_file_open_is_not_waited_for():
    holds = "import subprocess; print('left one behind', file=sys.stderr); subprocess.Popen(['sleep', '3'])"
    assert written(holds) == "left one behind"
