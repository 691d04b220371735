"""One of the processes that train together; see ``follow.py``. ``torchrun worker.py FOLDER``."""

import json
import sys
from pathlib import Path
from typing import Any

from rl.base.errors import Interrupted, RatchetError, UsageError
from rl.base.files import write_text
from rl.base.records import Report, silent
from rl.lm import processes
from rl.runs.processes.follow import FAILURE, RESULT, STOP
from rl.runs.processes.launch import read_job
from rl.training import method


def main(folder: Path) -> int:
    report = _reporter(folder) if processes.is_first() else silent
    try:
        shared = read_job(folder)
        if shared.processes and processes.count() != shared.processes:
            raise UsageError(
                f"{shared.processes} processes were asked for, and the launcher started {processes.count()}"
            )
        result = method(shared.method).train(shared.job, report)
    except RatchetError as error:
        # Whichever fails first ends the others.
        write_text(folder / FAILURE, json.dumps({"type": type(error).__name__, "text": str(error)}))
        return error.exit_code
    if processes.is_first():
        result.save(folder / RESULT)
    return 0


def _reporter(folder: Path) -> Report:
    stop = folder / STOP

    def report(event: str, values: dict[str, Any]) -> None:
        print(json.dumps({"event": event, "values": values}), flush=True)  # noqa: T201  the launcher reads it
        if stop.exists():
            raise Interrupted(stop.read_text(encoding="utf-8"))

    return report


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
