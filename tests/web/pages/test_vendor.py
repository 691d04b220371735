import hashlib
import re
from pathlib import Path

import pytest
from django.conf import settings

pytestmark = pytest.mark.database


UPLOT = Path(settings.BASE_DIR) / "static" / "vendor" / "uplot"


@pytest.mark.parametrize("name", ["uPlot.iife.min.js", "uPlot.min.css", "LICENSE"])
def test_the_copied_files_are_the_published_ones(name: str) -> None:
    written = dict(re.findall(r"([0-9a-f]{64})  (\S+)", (UPLOT / "README.md").read_text()))
    expected = next(digest for digest, file in written.items() if file == name)
    assert hashlib.sha256((UPLOT / name).read_bytes()).hexdigest() == expected
