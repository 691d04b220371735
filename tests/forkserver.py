"""A server whose forks need not import the training libraries, which is half of what a training of the tiny model costs.

There is one in each process, so what it imports is said once. Nothing of ours, and of Django and what belongs to it only
what reads no settings while it is imported: each site has its own.
"""

import gc
import multiprocessing
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from django.conf import settings

SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(
    [
        "torch",
        "matplotlib.figure",
        "psycopg",
        "transformers.models.qwen2.modeling_qwen2",
        "datasets",
        "peft",
        "trl.trainer.dpo_trainer",
        "trl.trainer.grpo_trainer",
        "trl.trainer.kto_trainer",
        "trl.trainer.reward_trainer",
        "django.contrib.admin.templatetags.admin_list",
        "django.core.management.commands.makemigrations",
        "django.db.backends.sqlite3.base",
        "django_filters",
        "rest_framework.serializers",
    ]
)


def become(arguments: Sequence[str], environment: Mapping[str, str], told: Sequence[Path]) -> None:
    """In a fork: a process that was started with these, leader of a session, with ``told`` as stdout and stderr."""
    assert not settings.configured, "something that is imported for all forks reads the settings"
    os.setsid()
    gc.freeze()  # the collector need not look through the libraries again
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = list(arguments)
    for number, path in enumerate(told, 1):
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(file, number)
        os.close(file)
    sys.stdout, sys.stderr = (os.fdopen(number, "w", encoding="utf-8", buffering=1, closefd=False) for number in (1, 2))
