"""Whatever a GGUF file says: one line, in bounded memory and time, and nothing is left."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from itertools import islice
from pathlib import Path

import pytest

from rl.base.errors import ExportFailed, RatchetError
from rl.base.records import silent
from rl.export.gguf.export import convert
from rl.export.gguf.unpack import unpack
from rl.export.ollama import template
from tests.export.gguf.hostile_files import Parts, counts, hostile_files, parts_of, tokenizers
from tests.refusals import limited

pytestmark = pytest.mark.learn

HARMLESS = (
    "context_length 2147483647",
    *(f"{name} of type {kind}" for name in ("token_type", "merges", "pre") for kind in (7, 9)),
    *(f"{name}_token_id of type 7" for name in ("bos", "eos")),
)
"""Begin the names of what is a model all the same: nothing is in the list, or no is 0."""
NOT_READ = {
    "qwen2-tied": (),
    "gpt2": ("attention.head_count_kv", "attention.key_length"),
    "gemma3": ("token_type", "pre of", "bos_token_id", "eos_token_id", "no merges"),
}
"""By family, what it has no use for."""


def lies_about(family: str, sound: Parts, architecture: str) -> Iterator[tuple[str, bytes]]:
    """What is wrong with any file is tried with one family; its numbers and its tokenizer are read as each family's."""
    if family == "qwen2-tied":
        yield from hostile_files(sound, architecture)
    else:
        yield from counts(sound, architecture)
        yield from tokenizers(sound)


@pytest.mark.slow
@pytest.mark.parametrize("family", NOT_READ)
def test_no_file_that_lies_is_unpacked(family: str, tiny_model: Callable[[str], Path], tmp_path: Path):
    file, target = tmp_path / "model.gguf", tmp_path / "unpacked"
    convert(tiny_model(family), file, "f32", "a model", silent)
    sound = parts_of(file)
    [architecture] = [raw[8:].decode() for key, _, raw in sound.fields if key == b"general.architecture"]
    file.write_bytes(sound.written())
    unpack(file, tmp_path / "sound", silent)
    failures, count = [], 0
    for name, data in lies_about(family, sound, architecture):
        count += 1
        file.write_bytes(data)
        if target.exists():
            target.rename(tmp_path / str(count))
        try:
            with limited():
                unpack(file, target, silent)
        except RatchetError as error:
            if len(str(error).splitlines()) != 1:
                failures.append(f"{name}: says {error}")
        except BaseException as error:
            failures.append(f"{name}: {type(error).__name__}: {str(error)[:200]}")
        else:
            if not name.startswith((*HARMLESS, *NOT_READ[family])):
                failures.append(f"{name}: is unpacked")
    assert not failures, "\n".join(failures)
    assert count > (200 if family == "qwen2-tied" else 150)


@pytest.mark.slow
def test_ollama_is_given_a_template_or_one_line(
    tiny_model: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """It opens files as the one that unpacks does, so a few that cannot be opened do; and it reads the tokenizer."""
    monkeypatch.setattr(template, "find_family", cache(template.find_family))  # most files have the sound template
    file = tmp_path / "model.gguf"
    convert(tiny_model("qwen2-tied"), file, "f32", "a model", silent)
    sound = parts_of(file)
    for _, data in (*islice(hostile_files(sound, "qwen2"), 40), *tokenizers(sound)):
        file.write_bytes(data)
        with limited(), suppress(ExportFailed):
            template.family_of_file(file)
