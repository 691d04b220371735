"""Django's command line, without a look for garbage while everything is imported, and with threads that sleep while they
wait."""

import gc
import os
from functools import partial

from django.core.management import ManagementUtility
from django.core.management.base import BaseCommand


class CommandLine(ManagementUtility):
    """The collector is off until the command is known. What is there then stays to the end, and is never looked through.

    Where threads that compute wait for each other they would spin: with all cores busy, two were measured to take ten times
    the CPU of one, in a judge's small matrices most of all. Torch reads the variable when it is loaded.
    """

    def execute(self) -> None:
        os.environ.setdefault("OMP_WAIT_POLICY", "passive")
        gc.disable()
        super().execute()

    def fetch_command(self, subcommand: str) -> BaseCommand:
        command = super().fetch_command(subcommand)
        command.create_parser = partial(command.create_parser, allow_abbrev=False)  # type: ignore[method-assign]
        gc.freeze()
        gc.enable()
        return command
