from pathlib import Path

import pytest

from rl.base.errors import UsageError
from rl.base.slugs import check_slug, inside


@pytest.mark.parametrize("name", ["a", "7", "FILER", "support-chat", "v25.2", "widget_selector", "a" * 64, "com10"])
def test_a_plain_name_is_taken_as_it_is(name):
    assert check_slug(name) == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        " ",
        ".",
        "..",
        "a..b",
        "../x",
        "a/b",
        "a\\b",
        ".hidden",
        "-x",
        "--output=x",
        "x-",
        "x.",
        "_x",
        "a b",
        "a\n",
        "a\x00b",
        "ä",
        "\u0430bc",
        "a" * 65,
        "con",
        "NUL",
        "Com1",
        "lpt9.txt",
        "aux.",
        "nul.tar.gz",
        "%2e%2e",
        "a:b",
        "~root",
        "$HOME",
        "a\u202eb",
        None,
        7,
        b"abc",
    ],
)
def test_a_name_that_is_not_safe_in_a_path_is_refused(name):
    with pytest.raises(UsageError, match="agent name .* is not usable"):
        check_slug(name, "agent name")


def test_a_path_inside_the_root_is_resolved(tmp_path: Path):
    assert inside(tmp_path, "runs/1") == tmp_path.resolve() / "runs" / "1"
    assert inside(tmp_path, tmp_path / "runs") == tmp_path.resolve() / "runs"
    assert inside(tmp_path, "a/../b") == tmp_path.resolve() / "b"


@pytest.mark.parametrize("path", ["../x", "a/../../x", "/etc/passwd", "..", "a\x00b"])
def test_a_path_that_leaves_the_root_is_refused(tmp_path: Path, path: str):
    with pytest.raises(UsageError):
        inside(tmp_path / "root", path)


def test_a_link_that_leaves_the_root_is_refused(tmp_path: Path):
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "out").symlink_to(tmp_path)
    with pytest.raises(UsageError, match="leaves"):
        inside(tmp_path / "root", "out/secret")


def test_a_neighbour_with_the_same_beginning_is_outside(tmp_path: Path):
    with pytest.raises(UsageError, match="leaves"):
        inside(tmp_path / "data", tmp_path / "data-of-others" / "x")
