"""Several processes that train together: which of them this is, and what all of them have to agree on.

The launcher (torchrun, accelerate) tells by RANK and WORLD_SIZE; alone, every function here does nothing.
"""

from __future__ import annotations

import os

import torch
import torch.distributed as dist
from accelerate import PartialState

from rl.records import Report, silent


def join(cpu: bool) -> None:
    """Meets the others, by gloo on CPUs and NCCL on GPUs."""
    if count() > 1:
        PartialState(cpu=cpu)


def count() -> int:
    return int(os.environ.get("WORLD_SIZE", "1"))


def rank() -> int:
    return int(os.environ.get("RANK", "0"))


def is_first() -> bool:
    """The one that reports and writes."""
    return rank() == 0


def wait() -> None:
    """Until all have come to this line."""
    if dist.is_initialized():
        dist.barrier()


def any_of(here: bool) -> bool:
    """Whether it is true in any process. A training that stops in one process only would hang in the others."""
    if not dist.is_initialized():
        return here
    flag = torch.tensor(int(here), device=PartialState().device)
    dist.all_reduce(flag, op=dist.ReduceOp.MAX)
    return bool(flag.item())


def gathered(part: list[float]) -> list[float]:
    """The parts of all processes, one after the other."""
    if not dist.is_initialized():
        return part
    parts: list[list[float]] = [[] for _ in range(count())]
    dist.all_gather_object(parts, part)
    return [value for each in parts for value in each]


def own_part(total: int) -> range:
    """What this process does of so many equal pieces of work; the parts in the order of the ranks are the whole."""
    edges = [total * number // count() for number in range(count() + 1)]
    return range(edges[rank()], edges[rank() + 1])


def reporter(report: Report) -> Report:
    return report if is_first() else silent
