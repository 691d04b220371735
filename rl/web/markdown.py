"""Texts of models and people as HTML that runs nothing, loads nothing and stays in its box.

HTML in a text is shown as text. What markdown-it makes of the rest goes through nh3, which lets only TAGS through, so that a
mistake here cannot become a script. ``static/rl/markdown.css`` has the looks. Lexers take quadratic time on some texts: for
pages ``rl.web.formatting`` does this in a process that can be ended."""

import re
from collections.abc import Sequence
from html import escape
from typing import Any, Final

import nh3
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict
from pygments import highlight
from pygments.formatters.html import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.token import STANDARD_TYPES

LONGEST: Final = 100_000
"""Characters of a text that are shown."""
LONGEST_FORMATTED: Final = 20_000
"""Characters of a text up to which it is read as Markdown; a longer one is shown as it is."""
LONGEST_HIGHLIGHTED: Final = 10_000
"""Characters of a block of code that is coloured."""
DEEPEST: Final = 12
"""Lists and quotes inside each other; what is deeper is shown as text of the last one."""
LANGUAGES: Final = re.compile(
    "bash|c|cpp|cs|csharp|css|diff|docker|dockerfile|go|golang|html|ini|java|javascript|js|json|kotlin|lua|makefile|nginx|"
    "perl|php|powershell|py|python|r|rb|ruby|rs|rust|scala|sh|shell|sql|swift|toml|ts|typescript|xml|yaml|yml|zsh",
    re.IGNORECASE,
)
"""Names that a block of code may give its language; others, and none, are not guessed."""
CLASS_PREFIX: Final = "hl-"
TAGS: Final = frozenset(
    {"p", "br", "hr", "strong", "em", "s", "code", "pre", "blockquote", "a", "span"}
    | {"ul", "ol", "li", "table", "thead", "tbody", "tr", "th", "td"}
)
_CLASSES: Final = {
    "p": {"heading", "more", "plain"},
    "span": {"address", *(f"{CLASS_PREFIX}{name}" for name in STANDARD_TYPES.values() if name)},
}
_ADDRESS: Final = re.compile(r"(?:https?://|mailto:)[^\s]", re.IGNORECASE)
_FORMATTER: Final = HtmlFormatter(nowrap=True, classprefix=CLASS_PREFIX)


def render(text: str) -> SafeString:
    """``text`` as CommonMark with tables and ~~strikethrough~~; a line break stays one. Headings are paragraphs, images
    links: nothing is fetched. A text of more than LONGEST_FORMATTED characters is shown as it is."""
    if len(text) > LONGEST_FORMATTED:
        return show_as_it_is(text)
    html = nh3.clean(
        _MARKDOWN.render(_encodable(text)),
        tags=set(TAGS),
        attributes={tag: set(names) for tag, names in {"a": {"href"}, "ol": {"start"}}.items()},
        allowed_classes={tag: set(names) for tag, names in _CLASSES.items()},
        url_schemes={"http", "https", "mailto"},
        link_rel="noopener noreferrer nofollow",
        set_tag_attribute_values={"a": {"target": "_blank"}},
    )
    return mark_safe(html)  # noqa: S308  that is what it is for


def show_as_it_is(text: str, note: str = "") -> SafeString:
    """In time that grows with its length only. At most LONGEST characters; then ``note``, and how many more there are."""
    over = len(text) - LONGEST
    more = f"… and {over:,} characters more, which are not shown." if over > 0 else ""
    lines = "".join(f'<p class="more">{escape(line)}</p>' for line in (note, more) if line)
    shown = escape(_encodable(text[:LONGEST]).replace("\0", "\ufffd"))
    return mark_safe(f'<p class="plain">{shown}</p>{lines}')  # noqa: S308  escaped above


def _encodable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _colour(code: str, language: str, _attributes: str) -> str:
    """The block's HTML; empty for plain text."""
    if not LANGUAGES.fullmatch(language) or len(code) > LONGEST_HIGHLIGHTED:
        return ""
    return str(highlight(code, get_lexer_by_name(language.lower(), stripnl=False, ensurenl=False), _FORMATTER))


class _Renderer(RendererHTML):
    """A page has headings of its own, and nothing that an answer names is loaded by showing it."""

    def heading_open(self, *_: Any) -> str:
        return '<p class="heading">'

    def heading_close(self, *_: Any) -> str:
        return "</p>\n"

    def link_close(self, tokens: Sequence[Token], index: int, *_: Any) -> str:
        opened = next(token for token in reversed(tokens[:index]) if token.type == "link_open")
        address = str(opened.attrs.get("href", ""))
        shown = "".join(token.content for token in tokens[tokens.index(opened) : index])
        return f"</a>{_address(address)}" if shown != address else "</a>"

    def image(self, tokens: Sequence[Token], index: int, options: OptionsDict, env: EnvType) -> str:
        token = tokens[index]
        address = str(token.attrs.get("src", ""))
        text = self.renderInlineAsText(token.children or [], options, env) or "picture"
        return f'<a href="{escape(address)}">Picture: {escape(text)}</a>{_address(address)}'


def _address(address: str) -> str:
    """Where a link leads stands beside it: its text may say anything."""
    return f' <span class="address">({escape(address)})</span>'


_OPTIONS: Final = {"html": False, "breaks": True, "linkify": False, "maxNesting": DEEPEST, "highlight": _colour}
_MARKDOWN: Final = MarkdownIt("commonmark", _OPTIONS, renderer_cls=_Renderer)
_MARKDOWN.enable(["table", "strikethrough"]).disable(["lheading", "reference"])
_MARKDOWN.validateLink = lambda url: bool(_ADDRESS.match(url))  # type: ignore[method-assign]
