"""The form of a backup: an uncompressed tar of plain files whose last member, manifest.json, lists the others.

``database/…`` is the database in one file, ``data/…`` are files of DATA_DIR. Weights do not compress, and a tar without
compression shows its list without being read through."""

import hashlib
import json
import os
import tarfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, Self

from rl.base.errors import BadFile

FORMAT = 1
MANIFEST = "manifest.json"
_LARGEST_MANIFEST = 256 * 1024 * 1024
_LARGEST_NAME = 64 * 1024
"""Bytes that say a long name or a large size before the file itself."""
_BLOCK = 1024 * 1024
_NONSENSE = (tarfile.TarError, ValueError, ArithmeticError, LookupError, TypeError, RecursionError, MemoryError)
"""What tarfile raises over headers that no honest program writes."""


@dataclass(frozen=True)
class Manifest:
    """``files``: member to ``{"size", "sha256"}``. ``migrations``: ``app.name`` of those that the database has.
    ``missing``: files that rows of the database name and that were not there."""

    format: int
    made_at: str
    ratchet: str
    python: str
    engine: str
    server: str
    migrations: list[str]
    files: dict[str, dict[str, Any]]
    missing: list[str]
    outside: list[str]


class BackupWriter:
    def __init__(self, path: Path) -> None:
        self.files: dict[str, dict[str, Any]] = {}
        self._handle = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")
        self._tar = tarfile.TarFile(fileobj=self._handle, mode="w", copybufsize=_BLOCK)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        try:
            if error[0] is None:  # else its end cannot be written either, and it is thrown away
                self._tar.close()
        finally:
            self._handle.close()

    def add(self, name: str, path: Path) -> bool:
        """As long as it is when it is opened; False where there is none. Raises OSError, also for one that shrinks."""
        try:
            handle = path.open("rb")
        except FileNotFoundError:
            return False
        with handle:
            status = os.fstat(handle.fileno())
            digest = self._put(name, status.st_size, int(status.st_mtime), handle)
        self.files[name] = {"size": status.st_size, "sha256": digest}
        return True

    def finish(self, manifest: Manifest, scratch: Path) -> None:
        scratch.write_text(json.dumps(asdict(manifest), indent=1), encoding="utf-8")
        with scratch.open("rb") as handle:
            self._put(MANIFEST, scratch.stat().st_size, 0, handle)

    def _put(self, name: str, size: int, modified: int, handle: IO[bytes]) -> str:
        member = tarfile.TarInfo(name)
        member.size, member.mtime, member.mode = size, modified, 0o600
        hashing = _Hashing(handle)
        self._tar.addfile(member, hashing)
        return hashing.digest.hexdigest()


class _Hashing:
    def __init__(self, handle: IO[bytes]) -> None:
        self._handle, self.digest = handle, hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        block = self._handle.read(size)
        self.digest.update(block)
        return block


class _Header(tarfile.TarInfo):
    """A header of a plain file, or of its long name. What else tarfile knows raises ValueError before it is looked into."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        header = super().frombuf(buf, encoding, errors)
        if not header.isreg() and not (header.type == tarfile.XHDTYPE and header.size <= _LARGEST_NAME):
            raise ValueError(f"{header.name!r:.200} is not safe to unpack: a backup holds plain files only")
        return header


class BackupReader:
    """A backup whose list is sound; its contents are checked when they are read. Raises BadFile."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._tar = tarfile.open(path, "r:", tarinfo=_Header)  # noqa: SIM115  closed with the reader
            self._members = {member.name: member for member in self._tar.getmembers()}
            count = len(self._tar.getmembers())
        except OSError as error:
            raise BadFile(path, f"cannot be read: {error.strerror or error}") from error
        except _NONSENSE as error:
            raise BadFile(path, f"is not a backup of Ratchet: {error}") from error
        if count != len(self._members):
            raise BadFile(path, "is not a backup of Ratchet: a name occurs twice in it")
        self.manifest = self._read_manifest()
        self._check_members()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._tar.close()

    @property
    def size(self) -> int:
        return sum(member.size for member in self._members.values())

    def unpack(self, folder: Path) -> None:
        """Every file below ``folder``, each compared with the manifest. Raises BadFile and OSError."""
        for name, wanted in self.manifest.files.items():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            if self._copy(name, target) != wanted["sha256"]:
                raise BadFile(self._path, "the file is not the one that was backed up (SHA-256 differs)", name)

    def _copy(self, name: str, target: Path) -> str:
        member = self._members[name]
        source = self._tar.extractfile(member)
        assert source is not None  # noqa: S101  only plain files pass _check_members
        digest = hashlib.sha256()
        with source, os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as handle:
            while block := source.read(_BLOCK):
                digest.update(block)
                handle.write(block)
        with suppress(OverflowError, ValueError):  # no honest time
            os.utime(target, (member.mtime, member.mtime))
        return digest.hexdigest()

    def _read_manifest(self) -> Manifest:
        member = self._members.get(MANIFEST)
        if member is None or not member.isreg() or member.size > _LARGEST_MANIFEST:
            raise BadFile(self._path, "is not a backup of Ratchet, or was cut off: it has no manifest.json")
        try:
            document = json.load(self._tar.extractfile(member))  # type: ignore[arg-type]
        except _NONSENSE as error:
            raise BadFile(self._path, f"cannot be read: {error}", MANIFEST) from error
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            raise BadFile(self._path, f"has another format than {FORMAT}; a newer Ratchet made it", MANIFEST)
        try:
            return _parse_manifest(document)
        except (TypeError, ValueError) as error:
            raise BadFile(self._path, f"is damaged: {error}", MANIFEST) from error

    def _check_members(self) -> None:
        """Plain files below ``database/`` and ``data/``, exactly those of the manifest. That is stricter than tarfile's data
        filter, which Python has from 3.11.4 on only."""
        for name, member in self._members.items():
            if name == MANIFEST:
                continue
            if not member.isreg() or not _is_plain(name):
                raise BadFile(self._path, "is not safe to unpack: a backup holds plain files only", name)
            if member.size != self.manifest.files.get(name, {}).get("size"):
                raise BadFile(self._path, "its size is not the one of the manifest, or it is not in it", name)
        if missing := set(self.manifest.files) - set(self._members):
            raise BadFile(self._path, f"is incomplete: {len(missing)} files are missing", sorted(missing)[0])


def _is_plain(name: str) -> bool:
    parts = name.split("/")
    return len(parts) > 1 and parts[0] in ("database", "data") and not {"", ".", ".."} & set(parts) and "\\" not in name


def _parse_manifest(document: Mapping[str, Any]) -> Manifest:
    """Raises TypeError and ValueError."""
    manifest = Manifest(**document)
    texts = (manifest.made_at, manifest.ratchet, manifest.python, manifest.engine, manifest.server)
    lists = (manifest.migrations, manifest.missing, manifest.outside)
    if not all(isinstance(text, str) and text.isprintable() for text in texts) or not all(
        isinstance(names, list) and all(isinstance(text, str) for text in names) for names in lists
    ):
        raise TypeError("a field has the wrong type")
    if not isinstance(manifest.files, dict) or not all(
        isinstance(entry, dict) and isinstance(entry.get("size"), int) and isinstance(entry.get("sha256"), str)
        for entry in manifest.files.values()
    ):
        raise TypeError("its list of files has the wrong form")
    return manifest
