"""What a text of a model may become on a page: formatted, and harmless whatever it holds."""

import re
import time

import pytest
from pygments.lexers import get_lexer_by_name

from rl.web.markdown import LANGUAGES, LONGEST, LONGEST_FORMATTED, TAGS, render


def test_a_plain_text_keeps_its_line_breaks():
    assert render("It left this morning.\nIt arrives tomorrow.") == (
        "<p>It left this morning.<br>\nIt arrives tomorrow.</p>\n"
    )
    assert render("") == ""


def test_headings_lists_tables_and_emphasis_are_formatted():
    html = render("# Tea\n\nBoil **fresh** ~~old~~ water.\n\n3. pour\n4. wait\n\n| cup | ml |\n|-|-|\n| big | 300 |")
    assert '<p class="heading">Tea</p>' in html
    assert "<strong>fresh</strong> <s>old</s>" in html
    assert '<ol start="3">' in html
    assert "<td>300</td>" in html


def test_code_is_coloured_by_classes_and_only_in_a_language_that_is_named():
    html = render("```python\ndef f():\n    return '<b>'\n```")
    assert '<span class="hl-k">def</span>' in html
    assert "&lt;b&gt;" in html
    assert "style" not in html
    assert "span" not in render("```\ndef f(): pass\n```")
    assert "span" not in render("```klingon\ndef f(): pass\n```")


@pytest.mark.parametrize("name", LANGUAGES.pattern.split("|"))
def test_every_language_has_a_lexer(name: str):
    assert list(get_lexer_by_name(name).get_tokens("x = 1"))


def test_a_link_shows_where_it_leads_and_gives_nothing_away():
    html = render("[your bank](https://evil.example/x?a=1&b=2) <https://good.example/>")
    assert (
        '<a href="https://evil.example/x?a=1&amp;b=2" target="_blank" rel="noopener noreferrer nofollow">your bank</a>'
        in html
    )
    assert '<span class="address">(https://evil.example/x?a=1&amp;b=2)</span>' in html
    assert html.count("https://good.example/") == 2


def test_a_picture_is_a_link_and_is_not_loaded():
    html = render(
        '![a "cat"](https://evil.example/track.png) [![b](https://evil.example/b.png)](https://evil.example/)'
    )
    assert "<img" not in html
    assert ">Picture: a &quot;cat&quot;</a>" in html.replace('Picture: a "cat"<', "Picture: a &quot;cat&quot;<")
    assert "https://evil.example/track.png" in html


HOSTILE = (
    "<script>alert(1)</script>",
    "<svg/onload=alert(1)>",
    "<svg><style><img src=x onerror=alert(1)></style></svg>",
    "<style>body { display: none }</style>",
    "<img src=x onerror=alert(1)>",
    "<iframe srcdoc='<script>alert(1)</script>'></iframe>",
    "<form action=/logout method=post><button>Click</button></form>",
    "<a href='javascript:alert(1)'>x</a>",
    "<div style='position:fixed;inset:0'>over everything</div>",
    "<math><mtext></form><form><mglyph><style></math><img src onerror=alert(1)>",
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt:alert(1))",
    "[x](java&#115;cript:alert(1))",
    "[x](data:text/html;base64,PHNjcmlwdD4=)",
    "![x](data:image/svg+xml,<svg onload=alert(1)>)",
    "[x](vbscript:msgbox)",
    "[x](//evil.example)",
    "[log me out](/logout/)",
    '[x](https://a.example"onmouseover=alert(1))',
    "```html\n</code></pre><script>alert(1)</script>\n```",
    '```"><script>alert(1)</script>\nx\n```',
    "`<script>alert(1)</script>`",
    "| <script> |\n|-|\n| <img src=x onerror=alert(1)> |",
    "<!-- <script>alert(1)</script>",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "[a]: javascript:alert(1)\n\n[a]",
    "\x00<script>\ud800alert(1)</script>",
    "<scr<script>ipt>alert(1)</scr</script>ipt>",
)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_texts_become_text(text: str):
    html = render(text)
    tags = re.findall(r"<\s*/?\s*([a-zA-Z0-9]+)([^>]*)>", html)
    assert {name for name, _ in tags} <= TAGS
    attributes = {name for _, inside in tags for name in re.findall(r'([\w-]+)="[^"]*"', inside)}
    assert attributes <= {"class", "href", "rel", "target", "start"}
    assert [href for href in re.findall(r'href="([^"]*)"', html) if not href.startswith(("https://", "mailto:"))] == []


@pytest.mark.parametrize(
    "text",
    [
        ">" * LONGEST_FORMATTED,
        "- " * (LONGEST_FORMATTED // 2),
        "*a **a " * (LONGEST_FORMATTED // 7),
        "[" * LONGEST_FORMATTED,
        "```python\n" + "f'{" * 3000,
        "<a " * (LONGEST_FORMATTED // 3),
        "|a" * 5000 + "\n" + "|-" * 5000,
    ],
    ids=["quotes", "lists", "emphasis", "brackets", "unclosed code", "tags", "columns"],
)
def test_deep_and_unclosed_texts_end_soon(text: str):
    started = time.process_time()
    html = render(text)
    assert time.process_time() - started < 30
    assert html.count("<blockquote") + html.count("<ul") < 30


def test_a_very_long_text_is_cut_and_says_so():
    html = render("word\n" * (LONGEST // 4))
    assert len(html) < LONGEST + 1000
    assert "25,000 characters more, which are not shown." in html
    assert html.startswith('<p class="plain">word\nword')
