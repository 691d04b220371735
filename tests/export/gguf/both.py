"""Exports merged and GGUF into some folders, a line for each: ``python -m tests.export.gguf.both BASE FOLDER …``."""

import sys
from pathlib import Path

from rl.base.errors import ExportFailed
from rl.base.export_records import ExportJob
from rl.base.records import silent
from rl.export.gguf import export as gguf
from rl.export.hf import merge


def export_both(base: Path, output: Path) -> list[str]:
    """What each export says."""
    lines = []
    for module in (merge, gguf):
        try:
            module.export(ExportJob(str(base), None, output, "tiny", "f32"), silent)
            lines.append("done")
        except ExportFailed as error:
            lines.append(str(error))
    return lines


if __name__ == "__main__":
    for folder in sys.argv[2:]:
        sys.stdout.write("".join(f"{line}\n" for line in export_both(Path(sys.argv[1]), Path(folder))))
