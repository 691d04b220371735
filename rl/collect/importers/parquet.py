"""Rows of a Parquet file, batch by batch; imported only when there is one, because pyarrow is not a package of the site."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet

from rl.base.errors import BadFile
from rl.collect.importers.rows import ALWAYS_FINE, MOST_TIMES, too_much

BATCH = 200


def rows(path: Path) -> Iterator[tuple[str, Any]]:
    """Values as JSON has them: times and exact decimals become text. Raises BadFile."""
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            unpacked = sum(
                file.metadata.row_group(number).total_byte_size for number in range(file.metadata.num_row_groups)
            )
            if unpacked > max(ALWAYS_FINE, MOST_TIMES * path.stat().st_size):
                raise too_much(path)
            number = 0
            for batch in file.iter_batches(BATCH):
                for row in batch.to_pylist():
                    number += 1
                    yield f"row {number}", json.loads(json.dumps(row, default=str))
    except (OSError, ValueError, RecursionError, MemoryError, pyarrow.ArrowException) as error:
        reason = next(iter(str(error).splitlines()), "") or type(error).__name__
        raise BadFile(path, f"not a readable Parquet file: {reason:.200}") from error
