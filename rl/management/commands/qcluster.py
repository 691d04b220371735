"""The queue, whose processes live and die together.

A worker that is killed while it waits for a task holds the lock of the queue inside the cluster, and nobody gets it again:
the other workers and the one that takes its place wait for ever. And what a killed cluster leaves behind would go on beside
the next one. So the death of one is the end of all, and the service manager starts them again. Tasks that were being
delivered come again; runs are started and looked after once a minute anyway."""

import logging
import multiprocessing
import os
import sys
from multiprocessing.process import BaseProcess
from typing import Any

from django.db import connections
from django_q import cluster
from django_q.management.commands import qcluster

from rl.base.find_process import die_with
from rl.operations.data_files import clear_leftovers

logger = logging.getLogger(__name__)


class Command(qcluster.Command):
    help = "Works off the queue until it is stopped."

    def handle(self, *args: Any, **options: Any) -> None:
        clear_leftovers()
        bind()
        super().handle(*args, **options)
        for sentinel in multiprocessing.active_children():  # the cluster that was started, until it has ended
            sentinel.join()
            if sentinel.exitcode:
                sys.exit(1)


def bind() -> None:
    cluster.Sentinel = Sentinel
    os.register_at_fork(after_in_child=_forget_connections)
    parents: list[int] = []
    os.register_at_fork(before=lambda: parents.append(os.getpid()), after_in_child=lambda: die_with(parents[-1]))


class Sentinel(cluster.Sentinel):
    """django-q's, which looks after the workers, and ends itself where it cannot make up for the death of one."""

    def reincarnate(self, process: BaseProcess) -> None:
        code = process.exitcode or 0
        if code < 0:
            logger.critical("%s was killed (signal %s): the queue starts anew", process.name, -code)
            for other in (*self.pool, self.monitor, self.pusher):
                other.kill()
            os._exit(1)
        super().reincarnate(process)


_INHERITED: list[object] = []
"""Connections of the parent, never used and never released: a connection that is garbage-collected says good-bye to the
server, for the parent too."""


def _forget_connections() -> None:
    """After a fork parent and child would talk to PostgreSQL through the same sockets: closing a connection leaves it in
    the pool, and a fork copies the pool."""
    for connection in connections.all(initialized_only=True):
        pools = getattr(connection, "_connection_pools", {})
        _INHERITED.extend([connection.connection, *pools.values()])
        pools.clear()
        connection.connection = None
