"""``/v1/uploads``: files that come in parts."""

import hashlib
from collections.abc import Iterable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from django.conf import settings
from django.db import transaction
from django.db.models import Sum
from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from rl.base.files import remove, staged_file
from rl.from_systems.openai_tuning.calls import TuningRefused, TuningView
from rl.from_systems.openai_tuning.files import (
    FormView,
    check_sent,
    checked_expiry,
    checked_name,
    checked_purpose,
    show_file,
)
from rl.from_systems.openai_tuning.stored_files import new_file
from rl.models.tuning import Upload, UploadedFile, UploadPart
from rl.web.api.auth import INGEST
from rl.web.front.uploads import PART_BYTES

LIFETIME: Final = timedelta(hours=1)
MOST_PARTS: Final = 1000
SENT_TWICE: Final = 2
"""Times a file's bytes that its parts may have together: an answer that got lost has a part sent again."""
_PIECE: Final = 1_048_576


def show_upload(row: Upload) -> dict[str, Any]:
    return {
        "id": row.pk,
        "object": "upload",
        "bytes": row.bytes,
        "created_at": int(row.created_at.timestamp()),
        "expires_at": int(row.expires_at.timestamp()) if row.expires_at else None,
        "filename": row.filename,
        "purpose": row.purpose,
        "status": row.status,
        "file": show_file(row.file) if row.file else None,
    }


class UploadList(TuningView):
    scopes = {"POST": INGEST}

    def post(self, request: Request) -> Response:
        body = self.fields("bytes", "filename", "mime_type", "purpose", "expires_after")
        size, mime_type, expiry = body.get("bytes"), body.get("mime_type"), body.get("expires_after")
        expiry = {} if expiry is None else expiry
        if type(size) is not int or not 0 < size <= settings.MAX_FILE_BYTES:
            raise TuningRefused(f"bytes must be a whole number from 1 to {settings.MAX_FILE_BYTES}", "bytes")
        if not isinstance(mime_type, str) or not 0 < len(mime_type) <= 100:
            raise TuningRefused("mime_type must be text of 1 to 100 characters", "mime_type")
        if not isinstance(expiry, dict):
            raise TuningRefused("expires_after must be an object of anchor and seconds", "expires_after")
        now = timezone.now()
        row = Upload.objects.create(
            agent=self.key.agent,
            api_key=self.key,
            filename=checked_name(body.get("filename")),
            purpose=checked_purpose(body.get("purpose")),
            bytes=size,
            mime_type=mime_type,
            created_at=now,
            expires_at=now + LIFETIME,
            file_seconds=checked_expiry(expiry.get("anchor"), expiry.get("seconds")),
        )
        return Response(show_upload(row))


class UploadParts(FormView):
    scopes = {"POST": INGEST}

    def post(self, request: Request, name: str) -> Response:
        upload = _pending(self, name)
        sizes = upload.parts.aggregate(sum=Sum("bytes"))["sum"] or 0
        room = min(PART_BYTES, SENT_TWICE * upload.bytes - sizes)
        if room <= 0 or upload.parts.count() >= MOST_PARTS:
            limit = f"at most {MOST_PARTS} parts, and {SENT_TWICE} times the bytes that were announced"
            raise TuningRefused(f"the upload has all the parts that it may have: {limit}", "data")
        part = UploadPart(upload=upload)
        part.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with staged_file(part.path) as path:
            sent, _ = self.receive("data", path, room)
            part.bytes = sent.size or 0
        part.save()
        return Response(
            {
                "id": part.pk,
                "object": "upload.part",
                "created_at": int(part.created_at.timestamp()),
                "upload_id": upload.pk,
            }
        )


class UploadComplete(TuningView):
    scopes = {"POST": INGEST}

    def post(self, request: Request, name: str) -> Response:
        body, upload = self.fields("part_ids", "md5"), _pending(self, name)
        parts = _in_order(upload, body.get("part_ids"))
        file = UploadedFile(
            agent=upload.agent, api_key=upload.api_key, filename=upload.filename, purpose=upload.purpose
        )
        if upload.file_seconds:
            file.expires_at = file.created_at + timedelta(seconds=upload.file_seconds)

        def save() -> None:
            with transaction.atomic():
                file.save()
                _end(upload, Upload.Status.COMPLETED, file)

        with new_file(file, save) as path:
            digest = _join(parts, path)
            if body.get("md5") not in (None, digest):
                raise TuningRefused(f"the MD5 checksum of the parts is {digest}, not {body['md5']!r:.50}", "md5")
            check_sent(path, file.purpose)
        _discard(upload)
        return Response(show_upload(upload))


class UploadCancel(TuningView):
    scopes = {"POST": INGEST}

    def post(self, request: Request, name: str) -> Response:
        upload = _pending(self, name)
        _end(upload, Upload.Status.CANCELLED)
        _discard(upload)
        return Response(show_upload(upload))


def _pending(view: TuningView, name: str) -> Upload:
    """Raises TuningRefused for one that takes nothing more."""
    row = view.mine(Upload.objects.all(), "upload", name)
    status = "expired" if row.expires_at and row.expires_at <= timezone.now() else row.status
    if status != Upload.Status.PENDING:
        raise TuningRefused(f"the upload is {status}: begin a new one", "upload_id")
    return row


def _in_order(upload: Upload, ids: object) -> list[UploadPart]:
    """Raises TuningRefused for parts that are not here, and for more or fewer bytes than were announced."""
    if not isinstance(ids, list) or not ids or not all(isinstance(name, str) for name in ids):
        raise TuningRefused("part_ids must be a list of the ids of parts, in their order", "part_ids")
    known = {part.pk: part for part in upload.parts.all()}
    if strange := next((name for name in ids if name not in known), None):
        raise TuningRefused(f"the upload has no part {strange[:100]!r}", "part_ids")
    if len(set(ids)) != len(ids):
        raise TuningRefused("part_ids names a part twice", "part_ids")
    parts = [known[name] for name in ids]
    if (size := sum(part.bytes for part in parts)) != upload.bytes:
        raise TuningRefused(f"the parts have {size} bytes together, and {upload.bytes} were announced", "part_ids")
    return parts


def _join(parts: Iterable[UploadPart], path: Path) -> str:
    """Returns the MD5 checksum of all of it. Raises TuningRefused where a part goes meanwhile."""
    digest = hashlib.md5(usedforsecurity=False)
    with path.open("wb") as whole:
        for part in parts:
            try:
                file = part.path.open("rb")
            except FileNotFoundError:
                raise _over() from None
            with file:
                while piece := file.read(_PIECE):
                    digest.update(piece)
                    whole.write(piece)
    return digest.hexdigest()


def _over() -> TuningRefused:
    return TuningRefused("another call has ended the upload", "upload_id")


def _end(upload: Upload, status: Upload.Status, file: UploadedFile | None = None) -> None:
    """Raises TuningRefused where another call has ended it."""
    if not Upload.objects.filter(pk=upload.pk, status=Upload.Status.PENDING).update(status=status, file=file):
        raise _over()
    upload.status, upload.file = status, file


def _discard(upload: Upload) -> None:
    """A part that comes at this moment goes when the upload expires."""
    for part in upload.parts.all():
        remove(part.path)
        part.delete()
    with suppress(OSError):  # it is not empty
        upload.path.rmdir()
