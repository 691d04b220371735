import hashlib
import re
from pathlib import Path

import pytest
from django.conf import settings

pytestmark = pytest.mark.database


VENDOR = Path(settings.BASE_DIR) / "static" / "vendor"
FILES = [path for path in VENDOR.glob("*/*") if path.name != "README.md"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_copied_files_are_the_published_ones(path: Path) -> None:
    written = re.findall(r"([0-9a-f]{64})  (\S+)", (path.parent / "README.md").read_text())
    assert (hashlib.sha256(path.read_bytes()).hexdigest(), path.name) in written
