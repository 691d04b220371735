"""Django's, for everybody to read."""

import os
from typing import Any

from django.contrib.staticfiles.management.commands import collectstatic


class Command(collectstatic.Command):
    """Scripts and styles are the only files of Ratchet that are for everybody: often one user collects them and another
    serves them."""

    def handle(self, **options: Any) -> str | None:
        before = os.umask(0o022)
        try:
            return super().handle(**options)
        finally:
            os.umask(before)
