"""What scripts of pages say goes through Django's catalog; the widget, which runs on pages of others, has its own words."""

import re
from pathlib import Path

import pytest
from django.conf import settings

FOLDER = Path(settings.BASE_DIR) / "static" / "rl"
OWN_WORDS = ("ratchet-feedback.js", "ratchet-feedback-more.js", "embed_demo.js", "api_docs.js")
SCRIPTS = sorted(path for path in FOLDER.glob("*.js") if path.name not in OWN_WORDS)
COMMENT = re.compile(r"/\*.*?\*/|(?<![:\"'])//[^\n]*", re.DOTALL)
TRANSLATED = re.compile(r'gettext\(\s*"(?:[^"\\]|\\.)*"(?:,\s*"(?:[^"\\]|\\.)*")?')
LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"|`((?:[^`\\]|\\.)*)`')
SENTENCE = re.compile(r"[A-Za-z]{2,}[,.:;]? [A-Za-z(“]|^[A-Z][a-z]+[.!?…]?$")
NO_WORDS = re.compile(
    r"[\[\]#=>]|^\.|^\(prefers|system-ui|textarea, |^(small soft|plain more|off topic|too long)$"
    r"|^(GET|POST|Accept|Content-Type|Arrow\w+|Enter|Escape|Backspace|Shift|Control|Alt|Meta|AltGraph|Tab|Space|Caps\w+"
    r"|Dead|VERSION|UTC|Shift\+\?|Please go on where you stopped\.)$"
)
"""Selectors, classes, names of keys and of tags, and what is asked of a model."""


def words_of(source: str) -> list[str]:
    """Texts that look like words for people, and stand in no call of gettext."""
    rest = TRANSLATED.sub("gettext(", COMMENT.sub("", source))
    texts = [one or other for one, other in LITERAL.findall(rest)]
    plain = [re.sub(r"\$\{[^}]*\}", "", text) for text in texts]
    return [text for text in plain if SENTENCE.search(text) and not NO_WORDS.search(text)]


def test_a_text_that_nobody_translates_is_noticed() -> None:
    source = 'say("Not saved"); say(gettext("Saved.")); name = `${count} votes wait`; // "a remark of ours"'
    assert words_of(source) == ["Not saved", " votes wait"]


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_scripts_say_nothing_that_nobody_can_translate(path: Path) -> None:
    assert words_of(path.read_text(encoding="utf-8")) == []
