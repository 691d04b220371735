"""Copy everything into one file."""

from pathlib import Path

from django.conf import settings

from rl.base.errors import UsageError
from rl.management.base import RatchetCommand
from rl.management.options import CommandOptions, option
from rl.operations.backup import back_up


class Options(CommandOptions):
    folder: Path | None = option(help="where to (BACKUP_DIR)")
    keep: int | None = option(metavar="N", help="remove all backups there but the newest N")


class Command(RatchetCommand):
    help = "Copies the database and DATA_DIR into one file, while the site and the queue go on."

    def run(self, options: Options) -> None:
        if options.keep is not None and options.keep < 1:
            raise UsageError(f"--keep {options.keep}: at least the new backup is kept; write 1 or more")
        folder = (options.folder or settings.BACKUP_DIR).expanduser().resolve()
        backup = back_up(folder, keep=options.keep, report=self.report)
        manifest, size = backup.manifest, backup.path.stat().st_size
        document = {
            "backup": str(backup.path),
            "size_bytes": size,
            "files": len(manifest.files),
            "missing": manifest.missing,
            "outside": manifest.outside,
            "links": backup.links,
            "removed": backup.removed,
        }
        lines = [f"{backup.path} ({size / 1e6:.1f} MB, {len(manifest.files)} files)"]
        lines += [f"missing: rows name {name}, which is not there" for name in manifest.missing]
        lines += [f"not in it: {name} lies outside of DATA_DIR" for name in manifest.outside]
        lines += [f"not in it: {name} is a symbolic link" for name in backup.links]
        lines += [f"removed: {name}" for name in backup.removed]
        lines.append("Not in it: .env. Keep a copy of it somewhere else; it holds SECRET_KEY and passwords.")
        self.result(document, lines=lines)
