"""OpenAI's own libraries, as their users call them: each method for files and uploads, and each field of what they give."""

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from django.utils import timezone
from openai.resources.files import AsyncFiles, Files
from openai.resources.uploads import AsyncUploads, Uploads
from openai.resources.uploads.parts import Parts
from openai.types import FileObject, Upload
from openai.types.fine_tuning import FineTuningJobEvent
from openai.types.uploads import UploadPart

from rl.from_systems.openai_tuning import event_stream
from rl.models import Agent, ApiKey, TuningJob
from rl.web.front import following
from tests.from_systems.openai_tuning.callers import CHATS
from tests.serving.gateway.node_clients import run, with_clients
from tests.waiting import until
from tests.web.front.in_thread import front_in_thread

pytestmark = [pytest.mark.database, pytest.mark.process]
NAME = "chats.jsonl"
SUPERVISED = {"type": "supervised", "supervised": {"hyperparameters": {}}}
MD5 = hashlib.md5(CHATS).hexdigest()
ABOUT: dict[str, Any] = {"bytes": len(CHATS), "filename": NAME, "mime_type": "text/jsonl", "purpose": "fine-tune"}


@pytest.fixture
def url(transactional_db: None, data_dir: Path, settings) -> Iterator[str]:
    with front_in_thread(settings) as address:
        yield f"{address}/v1"


@pytest.fixture
def key(transactional_db: None) -> str:
    return ApiKey.create(name="tuner", kind=ApiKey.Kind.SECRET, scopes=["read", "ingest"])[1]


@pytest.fixture
def client(url: str, key: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=url, api_key=key, max_retries=0) as made:
        yield made


def create(client: openai.OpenAI) -> FileObject:
    expiry: Any = {"anchor": "created_at", "seconds": 3600}
    return client.files.create(file=(NAME, CHATS), purpose="fine-tune", expires_after=expiry)


def content(client: openai.OpenAI) -> bytes:
    return client.files.content(create(client).id).read()


def retrieve_content(client: openai.OpenAI) -> bytes:
    with pytest.warns(DeprecationWarning, match="content"):
        return client.files.retrieve_content(create(client).id).encode()


def listed(client: openai.OpenAI) -> list[str]:
    """Through all pages."""
    made = [create(client).id for _ in range(3)]
    rows = list(client.files.list(limit=2, order="asc", purpose="fine-tune"))
    assert [row.id for row in rows[-3:]] == made
    return [row.filename for row in rows[-3:]]


def delete(client: openai.OpenAI) -> str:
    name = create(client).id
    gone = client.files.delete(name)
    assert (gone.id, gone.deleted) == (name, True)
    with pytest.raises(openai.NotFoundError) as raised:
        client.files.retrieve(name)
    return str(raised.value.body["param"])  # type: ignore[index]


def part(client: openai.OpenAI) -> UploadPart:
    return client.uploads.parts.create(client.uploads.create(**ABOUT).id, data=CHATS)


def complete(client: openai.OpenAI) -> Upload:
    made = part(client)
    return client.uploads.complete(made.upload_id, part_ids=[made.id], md5=MD5)


def chunked(client: openai.OpenAI) -> Upload:
    return client.uploads.upload_file_chunked(
        file=CHATS, filename=NAME, bytes=len(CHATS), mime_type="text/jsonl", purpose="fine-tune", part_size=100, md5=MD5
    )


CALLS: dict[type, dict[str, tuple[Callable[[openai.OpenAI], Any], Callable[[Any], Any], Any]]] = {
    Files: {
        "create": (
            create,
            lambda file: (file.status, file.bytes, file.expires_at - file.created_at),
            ("processed", len(CHATS), 3600),
        ),
        "retrieve": (lambda client: client.files.retrieve(create(client).id), lambda file: file.filename, NAME),
        "list": (listed, list, [NAME] * 3),
        "delete": (delete, str, "id"),
        "content": (content, bytes, CHATS),
        "retrieve_content": (retrieve_content, bytes, CHATS),
        "wait_for_processing": (
            lambda client: client.files.wait_for_processing(create(client).id),
            lambda file: file.status,
            "processed",
        ),
    },
    Uploads: {
        "create": (
            lambda client: client.uploads.create(**ABOUT),
            lambda upload: (upload.status, upload.file),
            ("pending", None),
        ),
        "cancel": (
            lambda client: client.uploads.cancel(client.uploads.create(**ABOUT).id),
            lambda upload: upload.status,
            "cancelled",
        ),
        "complete": (complete, lambda upload: (upload.status, upload.file.filename), ("completed", NAME)),
        "upload_file_chunked": (chunked, lambda upload: (upload.status, upload.file.bytes), ("completed", len(CHATS))),
    },
    Parts: {"create": (part, lambda made: made.object, "upload.part")},
}
"""By resource and method: the call, what is looked at in its answer, and what that must be."""


def methods(resource: type) -> set[str]:
    own = {name for name, value in vars(resource).items() if callable(value) and not name.startswith("_")}
    return own - {"with_raw_response", "with_streaming_response", "parts"}


def test_the_calls_of_this_test_are_all_that_the_library_has():
    assert {resource: methods(resource) for resource in CALLS} == {
        resource: {*calls} for resource, calls in CALLS.items()
    }
    assert (methods(AsyncFiles), methods(AsyncUploads)) == (methods(Files), methods(Uploads))


def test_each_method_gives_what_its_users_know(client: openai.OpenAI):
    for resource, calls in CALLS.items():
        for method, (call, look, expected) in calls.items():
            assert look(call(client)) == expected, f"{resource.__name__}.{method}"


def test_an_object_has_each_field_of_its_type_and_no_other(client: openai.OpenAI):
    made = {FileObject: create(client), Upload: complete(client), UploadPart: part(client)}
    for kind, row in made.items():
        assert row.to_dict().keys() == kind.model_fields.keys()
        kind.model_validate(row.to_dict(), strict=True)


def test_a_mistake_is_an_error_of_the_library_that_says_where(client: openai.OpenAI):
    with pytest.raises(openai.BadRequestError, match="Line 2: is not JSON") as raised:
        client.files.create(file=(NAME, b'{"messages": [{}]}\n{"a"'), purpose="fine-tune")
    assert (raised.value.code, raised.value.param) == ("invalid_file_format", "file")
    with pytest.raises(openai.BadRequestError, match="purpose must be one of fine-tune, user_data, evals"):
        client.files.create(file=(NAME, CHATS), purpose="batch")
    with pytest.raises(openai.AuthenticationError, match="unknown"):
        client.with_options(api_key="sk_nobody").files.create(file=(NAME, CHATS * 10_000), purpose="fine-tune")


@pytest.mark.slow  # npm installs first
def test_javascript_sends_reads_and_deletes_files_too(url: str, key: str, tmp_path: Path):
    script = with_clients(Path(__file__).with_name("files.mjs"), tmp_path)
    (tmp_path / NAME).write_bytes(CHATS)
    assert json.loads(run("node", script, url, key, NAME, cwd=tmp_path)) == {
        "created": [len(CHATS), "fine-tune", "processed", 3600],
        "listed": [NAME],
        "content": CHATS.decode(),
        "waited": "processed",
        "deleted": True,
        "missing": [404, "id"],
        "bad": [400, "invalid_file_format"],
        "uploaded": ["completed", len(CHATS)],
        "cancelled": "cancelled",
    }


def count_looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    looks: list[str] = []
    look = event_stream.list_events
    monkeypatch.setattr(event_stream, "list_events", lambda job: looks.append(job.pk) or look(job))
    return looks


def test_events_of_a_job_stream_until_it_is_over(client: openai.OpenAI, monkeypatch: pytest.MonkeyPatch):
    agent = Agent.objects.create(name="router")
    job = TuningJob.objects.create(agent=agent, model="tiny", training_file="file-1", method=SUPERVISED, seed=1)
    address = f"/fine_tuning/jobs/{job.pk}/events?stream=true"
    events = client.get(address, cast_to=FineTuningJobEvent, stream=True, stream_cls=openai.Stream[FineTuningJobEvent])
    told = iter(events)
    assert [next(told).message, next(told).message][0] == f"Created fine-tuning job: {job.pk}"
    looks = count_looks(monkeypatch)
    until(lambda: len(looks) > 2)  # there is nothing to tell
    TuningJob.objects.update(is_checked=True)
    assert next(told).message == "Files validated, moving job to queued state"
    TuningJob.objects.update(finished_at=timezone.now())
    assert [event.message for event in told] == ["Fine-tuning job cancelled"]


def test_so_many_may_follow_a_job(client: openai.OpenAI, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(following, "MOST", 0)
    agent = Agent.objects.create(name="router")
    job = TuningJob.objects.create(agent=agent, model="tiny", training_file="file-1", method=SUPERVISED, seed=1)
    with pytest.raises(openai.InternalServerError, match="too many follow"):
        client.get(f"/fine_tuning/jobs/{job.pk}/events?stream=true", cast_to=object)
