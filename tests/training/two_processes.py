"""Two real processes on gloo, forked from a server that has imported what training needs: a launcher would take longer."""

import gc
import os
import sys
from pathlib import Path

from rl.base.errors import Interrupted
from rl.base.records import TrainingResult
from rl.config.training_job import TrainingJob
from tests.forkserver import SERVER
from tests.ports import reserve_port
from tests.training.conftest import Listener

_SECONDS = 120


def train(method: str, job: TrainingJob, stop_at: int | None = None) -> TrainingResult:
    """As the method's ``train``; interrupted when step ``stop_at`` is reported."""
    result, port = job.output_dir.with_name("result.json"), reserve_port()
    started = [SERVER.Process(target=_train, args=(method, job, rank, port, stop_at, result)) for rank in (0, 1)]
    for process in started:
        process.start()
    for process in started:
        process.join(_SECONDS)
    codes = [process.exitcode for process in started]
    for process in started:
        process.kill()
    if codes == [Interrupted.exit_code] * 2:
        raise Interrupted("stopped by a test")
    assert codes == [0, 0], f"exit codes {codes}"
    return TrainingResult.load(result)


def _train(method: str, job: TrainingJob, rank: int, port: int, stop_at: int | None, result: Path) -> None:
    gc.freeze()  # the collector need not look through the libraries again
    from rl.training import method as module_of

    address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    os.environ.update(address, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2")
    try:
        trained = module_of(method).train(job, Listener(stop_at if rank == 0 else None))
    except Interrupted as stop:
        sys.exit(stop.exit_code)
    if rank == 0:
        trained.save(result)
