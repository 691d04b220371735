"""After a real training on a person's words no byte of DATA_DIR has one of them."""

import base64
import bz2
import gzip
import io
import json
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy
import pytest

from tests.commands.conftest import prepared_site
from tests.commands.site import Site, serving

__all__ = ["prepared_site"]
WORDS = [
    *("zyxquuth", "vorplekin", "Größenwahnzweig", "отличнословка", "你好独特词语", "quibblefrost🙂", "nymbloscript"),
    *("wackelpuddinger", "flimmergurke", "tangelroth", "murbelwicht"),
]
"""Of a question, its answer, a correction, notes, tags, …: each in one kind of record, and in none of others' words."""
_HISTORY = (
    f"W = {WORDS!r}\n"
    + r"""
import json, uuid
from django.conf import settings
from django.utils import timezone
from rl.collect.feedback import write
from rl.models import Agent, Trace, WaitingRating, Quarantine
from rl.serving.gateway import pending
agent = Agent.objects.get(name="support-chat")
by = dict(source="test")
def trace(prompt, response, **more):
    return Trace.objects.create(agent=agent, prompt=[{"role": "user", "content": prompt}], response=response, **more)
for number in range(40):
    own = dict(unit="user:charlie", session_id="charlie-1")
    question = f"{W[0]} {W[2]} parcel {number}, where is {W[3]}?"
    good = trace(question, f"It is at {W[1]} {number}, thank you. {W[4]}", details={"said": W[5] * (number % 7)}, **own)
    bad = trace(question, f"No {W[1]} idea about {number} {'x' * 37 * number}.", **own)
    for answer, value in ((good, 1), (bad, 0)):
        for rater in ("user:alice", "user:charlie"):
            write.rate(answer, rater=rater, scale="thumb", value=value, notes=W[6] if "charlie" in rater else "", **by)
    other = trace(f"Who opens door {number}?", f"Bob does, at {number}.")
    write.rate(other, rater="user:charlie", scale="thumb", value=number % 2, tags=[W[7]], **by)
    write.rate(other, rater="user:charlie", scale="thumb", value=1, notes=W[6] * number, **by)
    write.rate(other, rater="user:alice", scale="thumb", value=1, **by)
    write.correct(other, text=f"{W[8]} does {number}.", rater="user:charlie", **by)
write.compare(good, bad, choice="left", rater="user:charlie", notes=W[6], **by)
now = timezone.now()
WaitingRating.objects.create(agent=agent, entry_id="later", rater="user:charlie", value=1, notes=W[9], rated_at=now)
Quarantine.objects.create(agent=agent, rater="user:charlie", reason="fast")
pending.folder().mkdir(parents=True, exist_ok=True)
document = {"agent_id": agent.pk, "unit": "user:charlie", "session_id": "", "response": W[10]}
pending.path_of(uuid.uuid4()).with_suffix(".json.broken").write_text(json.dumps(document))
outbox = settings.DATA_DIR / "rl_outbox"
outbox.mkdir()
(outbox / "x.json").write_text(json.dumps({"user": "user:charlie", "response": W[10]}))
"""
)


@pytest.fixture(scope="module")
def learned(prepared_site: Site, tmp_path_factory: pytest.TempPathFactory) -> Site:
    """A site with a version that learned from Charlie, was measured and exported, and a judge of the agent's ratings."""
    site = prepared_site.copy(tmp_path_factory.mktemp("forgetting") / "data")
    site.run("shell", "--no-imports", "-c", _HISTORY)
    site.run("train_dpo", "--agent", "support-chat", "--max-steps", "4")
    site.run("train_kto", "--agent", "support-chat", "--max-steps", "2")
    site.run("calculate_rewards")
    site.run("auto_label", "--agent", "support-chat")
    site.run("export_model", "--agent", "support-chat", "--format", "lora")
    return site


@pytest.fixture
def site(learned: Site, tmp_path: Path) -> Site:
    return learned.copy(tmp_path / "data")


def test_the_look_finds_words_however_they_are_written(tmp_path: Path):
    word = "Größenwahnzweig"
    numpy.savez_compressed(tmp_path / "a.npz", numpy.frombuffer(word.encode(), numpy.uint8))
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(json.dumps({"a": json.dumps(word)}).encode()))
    with tarfile.open(tmp_path / "c.tar", "w") as archive:
        entry = tarfile.TarInfo("b.gz")
        packed = gzip.compress(word.encode("utf-16-le"))
        entry.size = len(packed)
        archive.addfile(entry, io.BytesIO(packed))
    (tmp_path / "d.bin").write_bytes(b"\x00\xff" + word.upper().encode())
    (tmp_path / "e.txt").write_text("Größen wahn zweig")
    assert set(find([word], tmp_path)) == {"a.npz!arr_0.npy", "b.jsonl.gz!", "c.tar!b.gz!", "d.bin"}


@pytest.mark.process
@pytest.mark.slow
def test_no_byte_of_the_folder_has_a_word_of_theirs(site: Site):
    """While the site runs and holds its connections. Backups are named, and left to the operator."""
    site.run("backup")
    before = find(WORDS, site.data)
    places = {name.partition("/")[0] for name in before}
    assert places >= {"db.sqlite3", "training_sets", "gateway", "rl_outbox", "backups"}
    assert {word for words in before.values() for word in words} == set(WORDS)
    assert site.query("SELECT count(*) FROM rl_evaluation WHERE report LIKE ?", f"%{WORDS[0]}%") != [(0,)]
    with serving(site):
        receipt = site.json("forget_person", "user:charlie", "--delete-files")
        after = find(WORDS, site.data)
    (backup,) = receipt["remains"]["backups"]
    assert {name.partition("!")[0] for name in after} == {f"backups/{backup}"}
    assert (receipt["state"], receipt["files"]["kept"], receipt["remains"]["database"]) == ("done", {}, "")
    (site.data / "backups" / backup).unlink()
    assert find(WORDS, site.data) == {}
    site.run("backup")
    assert find(WORDS, site.data) == {}


DEEPEST = 4
"""Archives within archives."""


def spellings(word: str) -> set[bytes]:
    """As text of several encodings, and as JSON, once and twice, writes it."""
    plain = {word, word.lower(), word.upper(), word.casefold()}
    escaped = {json.dumps(each)[1:-1] for each in plain}
    texts = plain | escaped | {json.dumps(each)[1:-1] for each in escaped} | {word.encode("unicode_escape").decode()}
    codes = ("utf-8", "utf-16-le", "utf-16-be", "utf-32-le")
    return {each.encode(code) for each in texts for code in codes} | _base64(word.encode())


def _base64(data: bytes) -> set[bytes]:
    """What of the text stays the same whatever stands around it, at each of the three places it may have in a group."""
    middles = set()
    for shift in range(3):
        middles.add(base64.b64encode(b"\0" * shift + data)[4 if shift else 0 : -4])
    return {middle for middle in middles if len(middle) >= 8}


def find(words: Iterable[str], folder: Path) -> dict[str, set[str]]:
    """File, or member of a file, to the words in it; the paths are relative."""
    looked_for = {word: spellings(word) for word in words}
    seen: dict[str, set[str]] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink():
            for name, content in _layers(path.relative_to(folder).as_posix(), path.read_bytes(), DEEPEST):
                hits = {word for word, forms in looked_for.items() if any(form in content for form in forms)}
                if hits or any(word in name for word in looked_for):
                    seen.setdefault(name, set()).update(hits)
    return seen


def _layers(name: str, content: bytes, left: int) -> Iterator[tuple[str, bytes]]:
    """The bytes as they are, and what is packed in them."""
    yield name, content
    for member, inner in _unpacked(content) if left else ():
        yield from _layers(f"{name}!{member}", inner, left - 1)


def _unpacked(content: bytes) -> Iterator[tuple[str, bytes]]:
    kinds = ((b"\x1f\x8b", gzip.decompress), (b"BZh", bz2.decompress), (b"\xfd7zXZ", lzma.decompress))
    for magic, unpack in kinds:
        if content.startswith(magic):
            yield "", unpack(content)
    if content[:1] == b"\x78" and content[1:2] in b"\x01\x5e\x9c\xda":
        yield "", zlib.decompressobj().decompress(content)
    if content.startswith(b"PK\x03\x04"):  # .npz, and what torch saves
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            yield from ((member, archive.read(member)) for member in archive.namelist())
    if content[257:262] == b"ustar":
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            for entry in archive.getmembers():
                if entry.isfile() and (file := archive.extractfile(entry)) is not None:
                    yield entry.name, file.read()
