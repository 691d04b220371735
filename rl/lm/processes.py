"""Several processes that train together: which of them this is, and what all of them have to agree on.

The launcher (torchrun, accelerate) tells by RANK and WORLD_SIZE; alone, every function here does nothing."""

import os
from collections.abc import Mapping
from typing import TypeVar

import torch
import torch.distributed as dist
from accelerate import PartialState
from accelerate.utils import gather, pad_across_processes, reduce
from torch import Tensor

from rl.base.errors import Interrupted, UsageError
from rl.base.records import Report, silent

Item = TypeVar("Item")


def join(cpu: bool) -> None:
    """Meets the others, by gloo on CPUs and NCCL on GPUs. Raises UsageError where they would have to share a GPU."""
    here, gpus = int(os.environ.get("LOCAL_WORLD_SIZE", "1")), torch.cuda.device_count()
    if not cpu and 0 < gpus < here:
        raise UsageError(
            f"{here} processes need a GPU each, and there {'is' if gpus == 1 else 'are'} {gpus} here: give --num-processes "
            f"{gpus}, or train on the CPU with CUDA_VISIBLE_DEVICES= before the command"
        )
    PartialState(cpu=cpu)


def count() -> int:
    return int(os.environ.get("WORLD_SIZE", "1"))


def rank() -> int:
    return int(os.environ.get("RANK", "0"))


def device_number() -> int:
    """Which of this machine's GPUs is this process's."""
    return int(os.environ.get("LOCAL_RANK", "0"))


def is_first() -> bool:
    """The one that reports and writes."""
    return rank() == 0


def cuts_models() -> bool:
    """Whether accelerate was told to spread each model over the processes."""
    return any(os.environ.get(f"ACCELERATE_USE_{engine}") == "true" for engine in ("FSDP", "DEEPSPEED"))


def wait() -> None:
    """Waits until all processes have come to this line."""
    if dist.is_initialized():
        dist.barrier()


def any_of(here: bool) -> bool:
    """Whether it is true in any process. A training that stops in one process only would hang in the others."""
    if not dist.is_initialized():
        return here
    flag = torch.tensor(int(here), device=PartialState().device)
    dist.all_reduce(flag, op=dist.ReduceOp.MAX)
    return bool(flag.item())


def stopped_anywhere(here: Interrupted | None) -> Interrupted | None:
    """What interrupts all of them, where any was told to stop; the same question as ``any_of``."""
    if any_of(here is not None):
        return here or Interrupted("the first process was told to stop")
    return None


def gather_items(part: list[Item]) -> list[Item]:
    """The parts of all processes, one after the other."""
    if not dist.is_initialized():
        return part
    parts: list[list[Item]] = [[] for _ in range(count())]
    dist.all_gather_object(parts, part)
    return [item for items in parts for item in items]


def stack_rows(rows: Tensor, padding: float = 0) -> Tensor:
    """The rows of all processes, which have equally many; (B, T) with ``padding`` at the end of those that are shorter."""
    if not dist.is_initialized():
        return rows
    whole: Tensor = gather(pad_across_processes(rows, dim=1, pad_index=padding).contiguous())
    return whole


def total(part: Tensor) -> Tensor:
    """The sum over all processes."""
    whole: Tensor = reduce(part, "sum") if dist.is_initialized() else part
    return whole


def totals(parts: Mapping[str, float]) -> dict[str, float]:
    """The sums over all processes, which have the same names."""
    if not dist.is_initialized():
        return dict(parts)
    sums = total(torch.tensor(list(parts.values()), dtype=torch.float64, device=PartialState().device))
    return dict(zip(parts, sums.tolist(), strict=True))


def own_part(pieces: int) -> range:
    """What this process does of so many equal pieces of work; the parts in the order of the ranks are the whole."""
    edges = [pieces * number // count() for number in range(count() + 1)]
    return range(edges[rank()], edges[rank() + 1])


def share(rows: int) -> int:
    """How many rows one process has in memory at once, where all together have ``rows``; at least one."""
    return max(1, rows // count())


def reporter(report: Report) -> Report:
    return report if is_first() else silent
