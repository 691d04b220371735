"""Put a backup back."""

from pathlib import Path

from rl.management.base import RatchetCommand
from rl.management.options import CommandOptions, argument, option
from rl.operations.restore import restore


class Options(CommandOptions):
    backup: Path = argument(type=Path, help="the file that 'manage.py backup' made")
    replace: bool = option(action="store_true", help="throw away what is in the database and in DATA_DIR")


class Command(RatchetCommand):
    help = "Puts a backup back into this installation. Stop the site and the queue first."

    requires_system_checks = ()  # of what is about to be replaced

    def run(self, options: Options) -> None:
        restored = restore(options.backup.expanduser(), replace=options.replace, report=self.report)
        manifest = restored.manifest
        lines = [f"The backup of {manifest.made_at} is back: the database and {len(manifest.files) - 1} files."]
        lines += [f"missing since before the backup: {name}" for name in manifest.missing]
        if restored.migrated:
            lines.append(f"It was older than this Ratchet; applied: {', '.join(restored.migrated)}")
        document = {"made_at": manifest.made_at, "ratchet": manifest.ratchet, "files": len(manifest.files)}
        document |= {"missing": manifest.missing, "migrated": restored.migrated}
        self.result(document, lines=lines)
