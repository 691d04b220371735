"""The process that formats texts for pages: a text in a line of JSON comes in, its HTML goes out as one.

A text that takes too long ends who formats by a signal, whatever code is at work then. So a process of its own does that,
forked from this one, which has loaded everything, answers for the one that ended, and forks the next in some milliseconds.
"""

import json
import os
import resource
import signal
import sys
from contextlib import suppress
from typing import Final

from rl.base.priority import give_way
from rl.web.markdown import render

CPU_SECONDS: Final = 0.25
"""Processor time for one text. LONGEST_FORMATTED characters of what people write take a tenth of a second at the most."""
SECONDS: Final = 10.0
"""Time by the clock for one text, on a machine that is very busy."""
NICENESS: Final = 10
"""Texts that are slow to format take what the requests leave of the processors."""
MEMORY_BYTES: Final = 1_073_741_824
LONGEST_HTML: Final = 1_000_000
"""Characters that a text may become: the cells of a table that are left out come to a million soon."""


def main() -> None:
    """Ends where nobody asks any more, and by an exit status where who formats ended for another reason than its time."""
    give_way(NICENESS)
    with suppress(ValueError, OSError):  # not every system has it
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    while True:
        worker = os.fork()
        if not worker:
            for line in sys.stdin:
                signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
                signal.setitimer(signal.ITIMER_REAL, SECONDS)
                html = format_text(json.loads(line))
                signal.setitimer(signal.ITIMER_PROF, 0)
                signal.setitimer(signal.ITIMER_REAL, 0)
                answer(html)
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1])
        if code != -signal.SIGPROF:
            sys.exit(abs(code))
        answer("")


def answer(html: str) -> None:
    sys.stdout.write(json.dumps(html) + "\n")
    sys.stdout.flush()


def format_text(text: str) -> str:
    """Empty where it cannot be formatted."""
    try:
        html = str(render(text))
    except Exception:  # noqa: BLE001  a mistake in somebody's lexer is no reason to show nothing
        return ""
    return html if len(html) <= LONGEST_HTML else ""


if __name__ == "__main__":
    main()
