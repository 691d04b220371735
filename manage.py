#!/usr/bin/env python3
"""The one entrance: ``python3 manage.py quickstart`` on a bare machine, ``manage.py <command>`` afterwards."""

import os
import sys

from backend import bootstrap


def main() -> int:
    if (code := bootstrap.run(sys.argv[1:])) is not None:
        return code
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "backend.settings")
    from django.core.exceptions import ImproperlyConfigured

    from backend.command_line import CommandLine

    try:
        CommandLine(sys.argv).execute()
    except ImproperlyConfigured as error:
        print(f"wrong setting: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
