"""``/v1/files``."""

from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from django.conf import settings
from django.core.files.uploadedfile import UploadedFile as SentFile
from django.core.files.uploadhandler import FileUploadHandler
from django.http import FileResponse
from rest_framework.parsers import MultiPartParser
from rest_framework.request import Request
from rest_framework.response import Response

from rl.base.names import unknown_name
from rl.collect.storable import unstorable
from rl.from_systems.openai_tuning.calls import TuningRefused, TuningView, not_found
from rl.from_systems.openai_tuning.checks import BadRows, check_form
from rl.from_systems.openai_tuning.stored_files import FINE_TUNE, SENT, delete_file, live_files, new_file
from rl.models.tuning import UploadedFile
from rl.web.api.auth import INGEST, READ

_ANCHOR, _SECONDS = "expires_after[anchor]", "expires_after[seconds]"
SHORTEST, LONGEST = 3600, 2_592_000
"""Seconds until a file expires: an hour, 30 days."""
LONGEST_NAME: Final = 255


def show_file(row: UploadedFile) -> dict[str, Any]:
    return {
        "id": row.pk,
        "object": "file",
        "bytes": row.bytes,
        "created_at": int(row.created_at.timestamp()),
        "expires_at": int(row.expires_at.timestamp()) if row.expires_at else None,
        "filename": row.filename,
        "purpose": row.purpose,
        "status": "processed",
        "status_details": None,
    }


class _OneFile(FileUploadHandler):
    """Writes the file of a form to ``path``, in the place of Django's temporary files."""

    def __init__(self, path: Path, field: str, most: int) -> None:
        super().__init__()
        self._path, self._field, self._most = path, field, most
        self.file: Any = None

    def new_file(self, field_name: str, *args: Any, **kwargs: Any) -> None:
        super().new_file(field_name, *args, **kwargs)
        if field_name != self._field or self.file is not None:
            raise TuningRefused(f"send one file, as the field {self._field!r}", field_name[:100])
        self.file = self._path.open("wb")

    def receive_data_chunk(self, raw_data: bytes, start: int) -> None:
        if start + len(raw_data) > self._most:
            self.file.close()
            raise TuningRefused(f"the file has more than {self._most} bytes", self._field, status=413)
        self.file.write(raw_data)

    def file_complete(self, file_size: int) -> SentFile:
        self.file.close()
        return SentFile(self.file, self.file_name, self.content_type, file_size)

    def upload_interrupted(self) -> None:
        self.file.close()


class FormView(TuningView):
    """Takes a form with a file."""

    parser_classes = [MultiPartParser]

    def receive(self, field: str, path: Path, most: int, *known: str) -> tuple[SentFile, dict[str, str]]:
        """Writes the file to ``path``; returns its name and size, and the other fields. Raises TuningRefused."""
        self.request._request.upload_handlers = [_OneFile(path, field, most)]
        form = self.request.POST.dict()
        for name in form:
            if name not in known:
                raise TuningRefused(
                    unknown_name("parameter", name[:100], sorted(known)), name[:100], "unknown_parameter"
                )
        sent = self.request.FILES.get(field)
        if sent is None:
            raise TuningRefused(f"{field} is missing: send it as a file with a name, in multipart/form-data", field)
        if not sent.size:
            raise TuningRefused("the file is empty", field)
        return sent, form


class FileList(FormView):
    scopes = {"GET": READ, "POST": INGEST}

    def get(self, request: Request) -> Response:
        purpose = request.GET.get("purpose")
        rows = live_files().filter(purpose="" if unstorable(purpose) else purpose) if purpose else live_files()
        return self.page_of(rows, show_file, default=10_000, most=10_000)

    def post(self, request: Request) -> Response:
        row = UploadedFile(agent=self.key.agent, api_key=self.key)
        with new_file(row) as path:
            sent, form = self.receive("file", path, settings.MAX_FILE_BYTES, "purpose", _ANCHOR, _SECONDS)
            row.filename, row.purpose = checked_name(sent.name), checked_purpose(form.get("purpose"))
            if seconds := checked_expiry(form.get(_ANCHOR), form.get(_SECONDS)):
                row.expires_at = row.created_at + timedelta(seconds=seconds)
            check_sent(path, row.purpose)
        return Response(show_file(row))


class FileCall(TuningView):
    scopes = {"GET": READ, "DELETE": INGEST}

    def get(self, request: Request, name: str) -> Response:
        return Response(show_file(self.mine(live_files(), "file", name)))

    def delete(self, request: Request, name: str) -> Response:
        delete_file(self.mine(live_files(), "file", name))
        return Response({"id": name, "object": "file", "deleted": True})


class FileContent(TuningView):
    scopes = {"GET": READ}

    def perform_content_negotiation(self, request: Request, force: bool = False) -> Any:
        """Clients say that they accept ``application/binary``, and what is wrong is JSON all the same."""
        return super().perform_content_negotiation(request, force=True)

    def get(self, request: Request, name: str) -> FileResponse:
        row = self.mine(live_files(), "file", name)
        try:
            content = row.path.open("rb")
        except FileNotFoundError:  # deleted at this moment
            raise not_found("file", name) from None
        kind = "application/octet-stream"
        return FileResponse(content, as_attachment=True, filename=row.filename, content_type=kind)


def checked_name(name: object) -> str:
    """Raises TuningRefused."""
    if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME or unstorable(name):
        raise TuningRefused(f"the name of a file must be text of 1 to {LONGEST_NAME} characters", "filename")
    return name


def checked_purpose(purpose: object) -> str:
    """Raises TuningRefused."""
    if purpose not in SENT:
        raise TuningRefused(f"purpose must be one of {', '.join(SENT)}, not {purpose!r:.50}", "purpose")
    return str(purpose)


def checked_expiry(anchor: object, seconds: object) -> int | None:
    """Seconds until a file expires, None for never. Raises TuningRefused."""
    if anchor is None and seconds is None:
        return None
    if anchor != "created_at":
        raise TuningRefused("expires_after.anchor must be created_at", _ANCHOR)
    number = int(seconds) if isinstance(seconds, str) and seconds.isdecimal() and len(seconds) < 10 else seconds
    if type(number) is not int or not SHORTEST <= number <= LONGEST:
        raise TuningRefused(f"expires_after.seconds must be a whole number from {SHORTEST} to {LONGEST}", _SECONDS)
    return number


def check_sent(path: Path, purpose: str) -> None:
    """Raises TuningRefused for a file to learn from whose lines have another form."""
    if purpose == FINE_TUNE:
        try:
            check_form(path)
        except BadRows as error:
            raise TuningRefused(
                f"invalid file format for fine-tuning: {error}", "file", "invalid_file_format"
            ) from error
