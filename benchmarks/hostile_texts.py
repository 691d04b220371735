"""Texts that make the program that reads them slow: quadratic and worse in what reads code, Markdown, HTML and words."""

from collections.abc import Iterator

LANGUAGES = [
    "bash",
    "c",
    "cpp",
    "cs",
    "css",
    "diff",
    "docker",
    "go",
    "html",
    "ini",
    "java",
    "javascript",
    "json",
    "kotlin",
    "lua",
    "makefile",
    "nginx",
    "perl",
    "php",
    "powershell",
    "python",
    "r",
    "ruby",
    "rust",
    "scala",
    "sql",
    "swift",
    "toml",
    "typescript",
    "xml",
    "yaml",
    "zsh",
]
REPEATED = [
    *(
        "\n",
        " ",
        "\t",
        "\\",
        '"',
        "'",
        "`",
        "(",
        "[",
        "{",
        "<",
        "</",
        "/*",
        "#",
        "@",
        "$",
        "${",
        "=",
        "-",
        "%",
        "&",
        "a",
        "0",
    ),
    *(
        ' "',
        "\n ",
        "\n#",
        "\\\n",
        "<a ",
        "a=",
        "a.",
        "a(",
        "((a",
        '"""',
        "'''",
        "/**",
        "//",
        "{{",
        "<%",
        "<!--",
        "$(",
        "<<A\n",
    ),
]
MARKDOWN = [
    "*a ",
    "_",
    "**a*",
    "[",
    "![",
    "[a](",
    "[a](<",
    "> ",
    "- ",
    "`a",
    "~~",
    "|a",
    "\\",
    "&a",
    "<",
    "a\n=\n",
    "1. ",
    "\n\n\t",
]


def blocks(length: int) -> Iterator[str]:
    """Blocks of code, each in a language that gets colours."""
    for language in LANGUAGES:
        for piece in REPEATED:
            yield f"```{language}\n{(piece * length)[:length]}\nx\n```"


def markdown(length: int) -> Iterator[str]:
    for piece in MARKDOWN:
        yield (piece * length)[:length]
    yield "|a" * (length // 6) + "\n" + "|-" * (length // 6) + "\n" + "|b" * (length // 6)
    yield "".join("> " * depth + "a\n" for depth in range(int(length**0.5)))


def texts(length: int) -> list[str]:
    """A few of each kind first: whoever takes the first fifty has all kinds."""
    code, words = list(blocks(length)), list(markdown(length))
    return [text for step in range(17) for text in [*code[step::17], *words[step::17]]]
