"""Rows of a Parquet file, batch by batch; imported only when there is one, because pyarrow is no package of the site."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet

from rl.base.errors import BadFile

BATCH = 200


def rows(path: Path) -> Iterator[tuple[str, Any]]:
    """Values as JSON has them: times and exact decimals become text. Raises BadFile."""
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            place = 0
            for batch in file.iter_batches(BATCH):
                for row in batch.to_pylist():
                    place += 1
                    yield f"row {place}", json.loads(json.dumps(row, default=str))
    except (OSError, pyarrow.ArrowException) as error:
        raise BadFile(path, f"not a readable Parquet file: {str(error).splitlines()[0]:.200}") from error
