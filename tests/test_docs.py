"""The pages say what is: names, options, numbers, links and files are compared with the code."""

import ast
import json
import re
import shlex
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core.management import load_command_class
from django.core.management.base import BaseCommand
from django.urls import URLPattern, URLResolver, get_resolver
from drf_spectacular.generators import SchemaGenerator

from rl.base import errors
from rl.collect.importers import IMPORTERS
from rl.config import METHODS, PRESETS, TrainingConfig, preset
from rl.config.guard_limits import GUARD_RAILS
from rl.config.levels import LEVELS
from rl.dataset_builder.exporting import FORMATS
from rl.environments import ENVIRONMENTS
from rl.evaluation import SCORERS
from rl.export import EXPORTERS
from rl.from_systems.command_center.callers import ADDRESSES
from rl.management.commands.modules import caption
from rl.rewards import REWARDS
from rl.sandbox import BACKENDS
from rl.web.api.base import OriginCheck, UnknownAddress
from tests.test_layers import modules, room_of, rooms_of

ROOT = Path(settings.BASE_DIR)
DOCS = ROOT / "docs"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]
WIDGET = (ROOT / "static/rl/ratchet-feedback.js").read_text()
BUILT_IN = (
    "makemessages",
    "runserver",
    "qcluster",
    "migrate",
    "createsuperuser",
    "changepassword",
    "collectstatic",
    "check",
    "test",
    "axes_reset_username",
    "axes_reset_ip",
    "version",
    "shell",
)
"""Commands of Django, django-q2 and django-axes that the pages name."""
COMMANDS = sorted({file.stem for file in (ROOT / "rl/management/commands").glob("[!_]*.py")} - {*BUILT_IN})
TRAINING = [name for name in COMMANDS if name == "train" or name.startswith("train_")]


# --- reading Markdown --------------------------------------------------------------------------------------------------


@cache
def lines_of(page: Path) -> list[tuple[str, bool]]:
    """Each line, and whether it is inside a code block."""
    found, inside = [], False
    for line in page.read_text(encoding="utf-8").splitlines():
        fence = line.strip().startswith("```")
        found.append((line, inside or fence))
        inside ^= fence
    return found


def headings(page: Path) -> list[str]:
    return [line.lstrip("#").strip() for line, is_code in lines_of(page) if line.startswith("#") and not is_code]


def names_in(heading: str) -> list[str]:
    return re.findall(r"`([^`]+)`", heading)


def named_headings(*pages: Path) -> set[str]:
    """What stands in code style in a heading."""
    return {name for page in pages for heading in headings(page) for name in names_in(heading)}


def section(page: Path, title: str) -> str:
    """From a heading to the next one of its rank or above."""
    taken: list[str] = []
    rank = 0
    for line, is_code in lines_of(page):
        if line.startswith("#") and not is_code:
            depth = len(line) - len(line.lstrip("#"))
            if rank and depth <= rank:
                break
            if not rank and line.lstrip("#").strip() == title:
                rank = depth
        if rank:
            taken.append(line)
    assert taken, f"{page.name} has no heading {title!r}"
    return "\n".join(taken)


def tables_in(text: str) -> list[list[str]]:
    """The cells of every table row, without code marks."""
    rows = [line.strip().strip("|").split("|") for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip().strip("`") for cell in row] for row in rows if set("".join(row)) - set("-: ")]


def anchor(heading: str) -> str:
    """As GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def code_blocks(page: Path) -> Iterator[str]:
    """Lines of code, continued ones joined."""
    text = "\n".join(line for line, is_code in lines_of(page) if is_code)
    return (line.strip() for line in text.replace("\\\n", " ").splitlines())


# --- commands ----------------------------------------------------------------------------------------------------------


@cache
def options_of(command: str) -> frozenset[str]:
    """The long options, those of its actions too, without those that every Django command has."""
    parser = load_command_class("rl", command).create_parser("manage.py", command)
    parsers = [parser]
    for action in parser._actions:
        parsers += action.choices.values() if isinstance(action.choices, dict) else []
    common = {action.dest for action in BaseCommand().create_parser("manage.py", command)._actions}
    actions = [action for each in parsers for action in each._actions if action.dest not in common]
    return frozenset(name for action in actions for name in action.option_strings if name.startswith("--"))


def heading_of(command: str) -> str:
    """A method may have a command's name."""
    return f"`manage.py {command}`" if command in METHODS else f"`{command}`"


def page_of(command: str) -> Path:
    pages = [page for page in PAGES if heading_of(command) in headings(page)]
    assert len(pages) == 1, f"{command} has {len(pages)} headings"
    return pages[0]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_a_heading_with_all_its_options(command: str):
    text = section(page_of(command), heading_of(command))
    if command in TRAINING:
        text += section(DOCS / "training.md", "Options of all training commands")
    assert sorted(name for name in options_of(command) if f"`{name}`" not in text) == []


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_is_said_to_have_an_option_that_it_lacks(command: str):
    rows = tables_in(section(page_of(command), heading_of(command)))
    said = {name for row in rows for name in re.findall(r"--[a-z][a-z-]+", row[0])}
    assert sorted(said - options_of(command)) == []


OF_RATINGS = {"--min-samples", "--val-split", "--min-confidence"}
"""Agents with tools learn from tasks."""


def test_the_options_of_all_training_commands_are_those_of_each():
    rows = tables_in(section(DOCS / "training.md", "Options of all training commands"))
    said = {name for row in rows for name in re.findall(r"--[a-z][a-z-]+", row[0])}
    for command in TRAINING:
        others = OF_RATINGS if command == "train_agent" else set()
        assert sorted(said - options_of(command) - {"--run", "--attempt"} - others) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_line_names_a_command_and_options_that_exist(page: Path):
    wrong = []
    for line in code_blocks(page):
        found = re.search(r"manage\.py (\w+)(.*)", line)
        if not found or (command := found[1]) in BUILT_IN:
            continue
        words = shlex.split(found[2].replace("…", " "), comments=True)
        given = {word.split("=")[0] for word in words if word.startswith("--")}
        if command not in COMMANDS or given - options_of(command) - {"--run", "--attempt"}:
            wrong.append(line)
    assert wrong == []


def test_the_training_page_lists_every_exit_code():
    rows = tables_in(section(DOCS / "training.md", "Exit codes"))
    codes = {each.exit_code for each in vars(errors).values() if isinstance(each, type)} | {0}
    assert {int(row[0]) for row in rows[1:]} == codes


# --- configuration -----------------------------------------------------------------------------------------------------


def test_every_variable_of_the_example_has_a_heading_and_nothing_else_has_one():
    example = re.findall(r"^([A-Z_]+)=", (ROOT / ".env.example").read_text(), re.MULTILINE)
    assert set(example) == named_headings(DOCS / "configuration.md")


def settings_calls() -> list[ast.Call]:
    readers = (
        "address",
        "addresses",
        "text",
        "secret",
        "boolean",
        "integer",
        "texts",
        "one_of",
        "hours",
        "origins",
        "secrets",
        "variables",
    )
    tree = ast.parse((ROOT / "backend/settings.py").read_text())
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    return [call for call in calls if call.func.id in readers]


def test_the_example_lists_every_variable_that_the_settings_read():
    example = set(re.findall(r"^([A-Z_]+)=", (ROOT / ".env.example").read_text(), re.MULTILINE))
    read = {str(ast.literal_eval(call.args[0])) for call in settings_calls()}
    secrets = {f"{ast.literal_eval(call.args[0])}_FILE" for call in settings_calls() if call.func.id == "secret"}
    assert read | secrets == example


def test_the_numbers_of_a_variable_are_those_of_the_settings():
    wrong = []
    for call in settings_calls():
        if call.func.id == "integer":
            name, *numbers = (ast.literal_eval(argument) for argument in call.args)
            text = section(DOCS / "configuration.md", f"`{name}`")
            wrong += [f"{name}: {number}" for number in numbers if not re.search(rf"\b{number}\b", text)]
    assert wrong == []


# --- the API -----------------------------------------------------------------------------------------------------------


def described_calls() -> set[str]:
    """From the OpenAPI document, and the two addresses that describe it."""
    document = SchemaGenerator().get_schema(request=None, public=True)
    calls = {f"{method.upper()} {path}" for path, methods in document["paths"].items() for method in methods}
    return {call.replace("{pk}", "{id}") for call in calls} | {"GET /api/schema/", "GET /api/docs/"}


def test_every_call_has_a_heading_and_every_heading_is_a_call():
    said = {name for name in named_headings(DOCS / "api.md") if " /" in name}
    assert said == described_calls()


ELSEWHERE = ("/api/public/", "/api/openwebui/")
"""Langfuse's own documentation says what is called; Open WebUI calls what docs/coming-from/open-webui.md has."""


def test_no_address_of_the_api_is_missing_from_its_description():
    def addresses(resolver: URLResolver, prefix: str = "") -> Iterator[tuple[str, Any]]:
        for entry in resolver.url_patterns:
            if isinstance(entry, URLPattern):
                yield f"/{prefix}{entry.pattern}", getattr(entry.callback, "cls", None)
            else:
                yield from addresses(entry, prefix + str(entry.pattern))

    views = [(address, view) for address, view in addresses(get_resolver()) if address.startswith("/api/")]
    views = [(address, view) for address, view in views if not address.startswith((*ADDRESSES, *ELSEWHERE))]
    others = {view for _, view in views if view is not None and (view.schema is None or view is UnknownAddress)}
    there = {re.sub(r"<\w+:pk>", "{id}", address) for address, view in views if view not in others}
    there = {re.sub(r"<\w+:(\w+)>", r"{\1}", address) for address in there}
    described = {call.split()[1] for call in described_calls()}
    assert there == described
    # A further spelling of an address is of a call that is described.
    assert {view.__mro__[1] for view in others - {UnknownAddress, OriginCheck}} <= {view for _, view in views}


# --- tables of the code ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("registry", [METHODS, EXPORTERS, IMPORTERS, SCORERS, REWARDS, BACKENDS, FORMATS, ENVIRONMENTS])
def test_every_name_of_a_registry_has_a_heading(registry: dict[str, str]):
    assert sorted(set(registry) - named_headings(*PAGES)) == []


def test_the_presets_are_those_of_the_code():
    header, *rows = tables_in(section(DOCS / "training.md", "Presets"))
    assert [name.strip("`") for name in header[1:]] == list(PRESETS)
    said = {
        name: dict(zip([row[0] for row in rows], [row[n] for row in rows], strict=True))
        for n, name in enumerate(PRESETS, start=1)
    }
    assert said == {name: preset_column(preset(name)) for name in PRESETS}


def preset_column(config: TrainingConfig) -> dict[str, str]:
    values = {name: str(value) for name, value in config.as_dict().items() if name != "automatic"}
    return values | dict.fromkeys(config.automatic, "chosen")


def test_the_guard_rails_are_those_of_the_code():
    rows = [
        line.split("|") for line in section(DOCS / "evaluation.md", "Guard rails").splitlines() if line[:3] == "| `"
    ]
    limits = ["" if rail.limit is None else f"{rail.limit:g}" for rail in GUARD_RAILS]
    named = [f"`{rail.name}`" for rail in GUARD_RAILS]
    assert [(row[1].strip(), row[2].strip()) for row in rows] == list(zip(named, limits, strict=True))
    assert all(row[3].strip() for row in rows)


def test_the_levels_are_those_of_the_code():
    rows = tables_in(section(DOCS / "export.md", "Levels"))
    assert [row[0] for row in rows[1:]] == list(LEVELS)


def test_the_python_names_can_be_imported():
    rows = tables_in(section(DOCS / "python-names.md", "Python names"))
    missing = []
    for path in (row[0] for row in rows[1:]):
        module, _, name = path.rpartition(".")
        if not hasattr(import_module(module), name):
            missing.append(path)
    assert missing == []


# --- the widget --------------------------------------------------------------------------------------------------------


def test_the_rating_page_names_all_that_the_widget_offers():
    text = section(DOCS / "rating.md", "The widget")
    lists = re.findall(r"const (?:ANEW|ATTRIBUTES) = (\[.*\]);", WIDGET)
    attributes = {name for each in lists for name in re.findall(r'"([\w-]+)"', each)} | {"lang", "key"}
    labels = {f"label-{name}" for name in re.findall(r"(\w+): [\"']", WIDGET.split("de: {")[0].split("en: {")[1])}
    properties = set(re.findall(r"--ratchet-\w+", WIDGET))
    events = {f"ratchet-{name}" for name in ("feedback", "sent", "queued", "error")}
    assert sorted(name for name in attributes | labels | events if f"`{name}`" not in text) == []
    assert sorted(name for name in properties if name not in text) == []


def test_the_widget_emits_the_events_that_are_documented():
    rows = tables_in(section(DOCS / "rating.md", "Events"))
    said = {row[0].removeprefix("ratchet-") for row in rows[1:]}
    emitted = set(re.findall(r'"(feedback|queued|sent|error)"', WIDGET))
    assert said == emitted


def test_every_key_of_the_rating_page_is_listed():
    listed = section(DOCS / "rating.md", "The rating page")
    names = {" ": "Space", "ArrowLeft": "←", "ArrowRight": "→", "ArrowDown": "↓"}
    scripts = "".join((ROOT / f"static/rl/{name}.js").read_text() for name in ("rate", "rate_rubrics"))
    tables = re.findall(r'(?:keys: |"\)?, )\[("[^\]]*")\]', scripts)
    keys = {key for table in tables for key in re.findall(r'"([^"]+)"', table)}
    shown = [names.get(key, key.upper() if len(key) == 1 else key) for key in keys]
    assert {"U", "X", "?", "→", "Enter"} <= set(shown)
    assert [key for key in shown if f"`{key}`" not in listed] == []


# --- the architecture --------------------------------------------------------------------------------------------------


def fenced(title: str) -> list[str]:
    """The lines of the first code block under a heading of the architecture."""
    return section(DOCS / "architecture.md", title).split("```")[1].strip("\n").splitlines()


def mapped() -> dict[str, str]:
    """Path to caption; a folder's path ends with a slash."""
    lines: dict[str, str] = {}
    above: list[str] = []
    for line in fenced("Map"):
        names, _, caption = line.strip().partition("  ")
        above = above[: (len(line) - len(line.lstrip())) // 2]
        lines |= {"".join(above) + name: caption.strip() for name in names.split(", ")}
        if names.endswith("/"):
            above.append(names)
    return lines


def packages() -> list[Path]:
    return [file.parent.relative_to(ROOT) for part in ("rl", "backend") for file in (ROOT / part).rglob("__init__.py")]


def test_the_architecture_is_one_page():
    assert len((DOCS / "architecture.md").read_text().splitlines()) <= 120
    assert len(fenced("Map")) <= 40


def test_the_map_names_every_package_or_the_one_around_it():
    named = mapped()
    missing = [path for path in packages() if len(path.parts) <= 3 and not {f"{path}/", f"{path.parent}/"} & set(named)]
    assert missing == []
    assert [path for path in packages() if len(path.parts) == 2 and f"{path}/" not in named] == []


def test_all_that_the_map_names_exists():
    captions = [(path, text) for path, text in mapped().items() if path.startswith("rl/")]
    folders = {path + name for path, text in captions for name in re.findall(r"\w+/(?=[\s,.;]|$)", text)}
    assert [path for path in sorted({*mapped(), *folders}) if not (ROOT / path).exists()] == []


def test_every_line_of_the_map_says_what_it_is():
    assert [path for path, text in mapped().items() if not text] == []


def test_the_stair_falls():
    """A room imports what stands below it, or beside it."""
    steps = [line.partition("#")[0].split() for line in fenced("Imports run one way")]
    step_of = {room: number for number, rooms in enumerate(steps) for room in rooms}
    rising = [
        f"{module} imports {room}"
        for module, file in modules().items()
        for room in rooms_of(file, room_of(module))
        if step_of[room] < step_of[room_of(module)]
    ]
    assert rising == []


def test_every_module_says_what_it_is():
    files = [
        file for part in ("rl", "backend") for file in (ROOT / part).rglob("*.py") if "migrations" not in file.parts
    ]
    assert [str(file.relative_to(ROOT)) for file in files if not caption(file)] == []


MODULE = re.compile(r"(?<![\w/.-])(?:rl|backend|tests|benchmarks|deploy|static|templates)/[\w./-]*\w/?")
DOTTED = re.compile(r"(?<![\w/.-])(?:rl|backend|tests)(?:\.[A-Za-z_]\w*)+")
STILL_TO_BE_WRITTEN = re.compile(r"simpo|safetensors_q8|my_reward|my_system")
"""Files that the recipes of extending.md have somebody write."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_path_that_a_page_names_exists(page: Path):
    named = [path for path in MODULE.findall(page.read_text()) if not STILL_TO_BE_WRITTEN.search(path)]
    assert [path for path in named if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "CHANGELOG.md"], ids=lambda page: page.name)
def test_every_module_that_a_page_names_exists(page: Path):
    named = {name for name in DOTTED.findall(page.read_text()) if not re.fullmatch(r"rl\.[EW]\d+", name)}
    assert [name for name in sorted(named) if not can_be_imported(name)] == []


def can_be_imported(name: str) -> bool:
    """A module, or a name in one."""
    if (ROOT / name.replace(".", "/")).is_dir() or (ROOT / (name.replace(".", "/") + ".py")).exists():
        return True
    module, _, attribute = name.rpartition(".")
    return bool(module) and can_be_imported(module) and hasattr(import_module(module), attribute)


# --- links, images, words ----------------------------------------------------------------------------------------------


def links_of(page: Path) -> Iterator[str]:
    text = "\n".join(line for line, is_code in lines_of(page) if not is_code)
    return (link for link in re.findall(r"\]\(([^)\s]+)\)", text) if not re.match(r"[a-z]+:", link))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_and_image_resolves(page: Path):
    broken = []
    for link in links_of(page):
        path, _, fragment = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (fragment and fragment not in map(anchor, headings(target))):
            broken.append(link)
    assert broken == []


def test_every_page_can_be_reached_from_the_readme():
    seen, waiting = set(), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page not in seen and page.suffix == ".md":
            seen.add(page)
            waiting += [(page.parent / link.partition("#")[0]).resolve() for link in links_of(page)]
    assert sorted(page.name for page in set(PAGES) - seen) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_nothing_is_left_to_be_written(page: Path):
    unfinished = r"\b(TODO|FIXME|XXX|TBD|WIP|lorem ipsum|coming soon|placeholder)\b"
    assert re.findall(unfinished, page.read_text(), re.IGNORECASE) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_lines_fit_a_screen(page: Path):
    long = [line for line, is_code in lines_of(page) if len(line) > 125 and not is_code and not line.startswith("|")]
    assert long == []


def test_the_readme_shows_the_two_commands():
    blocks = re.findall(r"```sh\n(.*?)\n```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert blocks == ["python3 manage.py quickstart", "python3 manage.py test"]


# --- dependencies ------------------------------------------------------------------------------------------------------


def pinned(*files: str) -> set[str]:
    texts = ((ROOT / file).read_text() for file in files)
    return {name for text in texts for name in re.findall(r"^([\w.-]+)(?:\[[^]]*\])?==", text, re.MULTILINE)}


def explained_in(text: str) -> set[str]:
    return {name.strip() for row in tables_in(text)[1:] for name in row[0].split(",")}


def test_every_pinned_package_has_its_reason_and_every_reason_a_package():
    python, npm = (DOCS / "decisions/dependencies.md").read_text().split("## From npm")
    assert explained_in(python) == pinned("requirements.txt", "requirements-rl.txt", "tests/requirements.txt")
    files = (ROOT / f"tests/{folder}/package.json" for folder in ("browser/frameworks", "serving/gateway/node"))
    packages = {
        name: version for file in files for name, version in json.loads(file.read_text())["devDependencies"].items()
    }
    assert explained_in(npm) == set(packages)
    assert [version for version in packages.values() if not re.fullmatch(r"(npm:.+@)?\d+\.\d+\.\d+", version)] == []


def test_the_setup_page_names_the_pinned_torch():
    versions = re.findall(r"torch==(\S+?)[`\s]", (DOCS / "setup.md").read_text())
    assert versions
    assert {f"torch=={version}" for version in versions} <= set((ROOT / "requirements-rl.txt").read_text().splitlines())
