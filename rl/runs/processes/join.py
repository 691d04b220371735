"""On every machine but the first: takes part in a training that the first one has started.

``python -m rl.runs.processes.join DATA_DIR/runs/7/launch accelerate.yaml``: ``DATA_DIR`` is the same shared folder on all
of them, and the configuration says which machine this is (``machine_rank``).
"""

import os
import subprocess
import sys
from pathlib import Path

from rl.base.errors import UsageError
from rl.runs.processes.launch import JOB, Launch, environment


def main(arguments: list[str]) -> int:
    try:
        folder, config = arguments
    except ValueError:
        print(__doc__, file=sys.stderr)  # noqa: T201
        return UsageError.exit_code
    try:
        if not (Path(folder) / JOB).is_file():
            raise UsageError(f"no training waits in {folder}: start it on the first machine by --accelerate-config")
        os.umask(0o077)
        command = Launch(accelerate_config=config).command(Path(folder).resolve())
        return subprocess.call(command, env=environment(os.environ))
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
