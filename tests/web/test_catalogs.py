"""Each language has all texts, whole, and as they are compiled."""

import ast
import gettext
import re
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from django.conf import settings

from rl.config.guard_limits import CAPTIONS
from rl.evaluation.guards.answer_errors import KINDS
from rl.evaluation.guards.measure import SAYS_LITTLE

LANGUAGES = [code for code, _ in settings.LANGUAGES if code != settings.LANGUAGE_CODE]
FOLDER = Path(settings.LOCALE_PATHS[0])
CATALOGS = [FOLDER / code / "LC_MESSAGES" / f"{domain}.po" for code in LANGUAGES for domain in ("django", "djangojs")]
PLACE = re.compile(r"%\(\w+\)s|(?<!\$)\{\w+\}|</?\w+[^>]*>|%%")


@dataclass
class Entry:
    """One text of a catalog."""

    msgid: str = ""
    plural: str = ""
    forms: dict[int, str] = field(default_factory=dict)
    is_fuzzy: bool = False


def read(path: Path) -> list[Entry]:
    entries = []
    for block in path.read_text(encoding="utf-8").split("\n\n"):
        entry, text = Entry(is_fuzzy="fuzzy" in block.partition("msgid")[0]), re.sub(r'"\n"', "", block)
        for name, number, value in re.findall(r'^(msgid_plural|msgid|msgstr)(?:\[(\d)\])? (".*")$', text, re.MULTILINE):
            said = ast.literal_eval(value)
            match name:
                case "msgid":
                    entry.msgid = said
                case "msgid_plural":
                    entry.plural = said
                case _:
                    entry.forms[int(number or 0)] = said
        entries.append(entry)
    return entries


@pytest.mark.parametrize("path", CATALOGS, ids=lambda path: f"{path.parts[-3]} {path.stem}")
class TestCatalog:
    def test_every_text_is_translated_whole(self, path: Path) -> None:
        head, *entries = read(path)
        number = int(re.search(r"nplurals=(\d)", head.forms[0])[1])  # type: ignore[index]
        assert [entry.msgid for entry in entries if entry.is_fuzzy] == []
        assert [entry.msgid for entry in entries if not all(entry.forms.values())] == []
        wanted = {entry.msgid: number if entry.plural else 1 for entry in entries}
        assert {entry.msgid: len(entry.forms) for entry in entries} == wanted

    def test_places_for_values_and_marks_are_the_same(self, path: Path) -> None:
        _, *entries = read(path)
        different = [
            (entry.msgid, form)
            for entry in entries
            for form in entry.forms.values()
            if _places(form) not in (_places(entry.msgid), _places(entry.plural))
        ]
        assert different == []

    def test_beginning_and_end_are_as_in_english(self, path: Path) -> None:
        """A space or a stop there joins the text to what stands beside it."""
        _, *entries = read(path)
        edges = [
            (entry.msgid, form)
            for entry in entries
            for form in entry.forms.values()
            if _edges(form) != _edges(entry.msgid)
        ]
        assert edges == []

    def test_what_is_compiled_is_what_is_written(self, path: Path) -> None:
        written: dict[str | tuple[str, int], str] = {}
        for entry in read(path):
            if entry.plural:
                written |= {(entry.msgid, number): form for number, form in entry.forms.items()}
            else:
                written[entry.msgid] = entry.forms[0]
        with path.with_suffix(".mo").open("rb") as file:
            compiled = gettext.GNUTranslations(file)._catalog  # type: ignore[attr-defined]
        assert compiled == written


def _places(text: str) -> set[str]:
    return set(PLACE.findall(text))


def _edges(text: str) -> tuple[bool, bool, bool]:
    return text[:1].isspace(), text[-1:].isspace(), text.endswith(".")


@pytest.mark.parametrize("domain", ["django", "djangojs"])
def test_languages_have_the_same_texts(domain: str) -> None:
    texts = [{entry.msgid for entry in read(path)} for path in CATALOGS if path.stem == domain]
    assert all(of_language == texts[0] for of_language in texts)


def test_words_of_records_that_pages_show_can_be_translated() -> None:
    texts = {entry.msgid for entry in read(CATALOGS[0])}
    kinds = {kind.replace("_", " ") for kind in (*KINDS, SAYS_LITTLE)}
    assert {*CAPTIONS.values(), *kinds} <= texts
