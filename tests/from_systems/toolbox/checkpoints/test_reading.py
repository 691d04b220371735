import collections
import enum
import json
import pickle
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rl.base.errors import BadFile
from rl.from_systems.toolbox.checkpoints.opcodes import PickleLimits
from rl.from_systems.toolbox.checkpoints.reading import read_pickle
from tests.from_systems.toolbox.checkpoints.hostile import call, dotted, name, raw, text, whole
from tests.from_systems.toolbox.checkpoints.make_checkpoints import write_checkpoints

PROTOCOLS = range(6)
HERE = __name__


class Mood(enum.Enum):
    GOOD = "good"


class Outer:
    class Inner(enum.Enum):
        ONE = 1


@dataclass
class Point:
    x: int
    y: object = None


@dataclass(slots=True, frozen=True)
class Frozen:
    x: int


class Dict(dict):
    pass


class List(list):
    pass


class Text(str):
    pass


class Model:
    """Writes itself as pydantic's models do."""

    def __getstate__(self) -> dict[str, Any]:
        return {"__dict__": {"x": 1}, "__pydantic_fields_set__": {"x"}, "__pydantic_private__": None}


def member(of: str, name: str, value: str | int) -> dict[str, Any]:
    """Python 3.11.0 to 3.11.3 write no values of enums into pickles, but names."""
    if Mood.GOOD.__reduce_ex__(2)[0] is getattr:
        return {"$type": f"{HERE}.{of}.{name}"}
    return {"$class": f"{HERE}.{of}", "$value": value}


GOOD = member("Mood", "GOOD", "good")
NAIVE = datetime(2026, 1, 5, 9, 30, 1, 5)  # noqa: DTZ001
BERLIN = timezone(timedelta(hours=1))
VALUES: list[tuple[Any, Any]] = [
    (None, None),
    (True, True),
    (0, 0),
    (-129, -129),
    (70_000, 70_000),
    (2**40, 2**40),
    (-(2**100), -(2**100)),
    (1.5, 1.5),
    (float("inf"), None),
    (float("nan"), None),
    ("é 中 😀 \\ \n", "é 中 😀 \\ \n"),
    ("\ud83d", "\ud83d"),
    ("x" * 70_000, "x" * 70_000),
    (b"", {"$bytes": ""}),
    (b"\x00\xff", {"$bytes": "AP8="}),
    (bytearray(b"ab"), {"$bytes": "YWI="}),
    ([1, [2]], [1, [2]]),
    ((), []),
    ((1, 2, 3, 4), [1, 2, 3, 4]),
    ({3}, [3]),
    (frozenset([3]), [3]),
    ({"a": {"b": 1}}, {"a": {"b": 1}}),
    ({1: "i", None: "n", False: "f", 0.5: "h"}, {"1": "i", "null": "n", "false": "f", "0.5": "h"}),
    ({1: "i", "1": "t"}, {"$pairs": [[1, "i"], ["1", "t"]]}),
    ({(1, 2): 3}, {"$pairs": [[[1, 2], 3]]}),
    ({Mood.GOOD: 1}, {"good": 1} if "$value" in GOOD else {"$pairs": [[GOOD, 1]]}),
    (collections.OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
    (collections.defaultdict(list, a=[1]), {"a": [1]}),
    (collections.Counter("aab"), {"a": 2, "b": 1}),
    (collections.deque([1, 2], 3), [1, 2]),
    (NAIVE, "2026-01-05T09:30:01.000005"),
    (NAIVE.replace(fold=1), "2026-01-05T09:30:01.000005"),
    (datetime(2026, 1, 5, tzinfo=UTC), "2026-01-05T00:00:00+00:00"),
    (datetime(2026, 1, 5, tzinfo=BERLIN), "2026-01-05T00:00:00+01:00"),
    (date(2026, 1, 5), "2026-01-05"),
    (time(9, 30), "09:30:00"),
    (timedelta(minutes=1.5), 90.0),
    (UTC, "UTC"),
    (UUID(int=7), "00000000-0000-0000-0000-000000000007"),
    (Decimal("-1.25"), -1.25),
    (2j, "2j"),
    (PurePosixPath("/srv/data"), "/srv/data"),
    (PurePosixPath("a/b"), "a/b"),
    (PureWindowsPath("C:/x"), "C:\\x"),
    (Mood.GOOD, GOOD),
    (Outer.Inner.ONE, member("Outer.Inner", "ONE", 1)),
    (Point(1, [2]), {"$class": f"{HERE}.Point", "x": 1, "y": [2]}),
    (Frozen(1), {"$class": f"{HERE}.Frozen", "$state": [1]}),
    (Dict(a=1), {"$class": f"{HERE}.Dict", "$mapping": {"a": 1}}),
    (List([1]), {"$class": f"{HERE}.List", "$elements": [1]}),
    (Text("x"), {"$class": f"{HERE}.Text", "$value": "x"}),
    (Model(), {"$class": f"{HERE}.Model", "x": 1}),
    (ValueError("no", 1), {"$class": "builtins.ValueError", "$arguments": ["no", 1]}),
    (Point, {"$type": f"{HERE}.Point"}),
    (len, {"$type": "builtins.len"}),
]


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(("value", "plain"), VALUES, ids=lambda value: f"{value!r:.40}")
def test_a_value_is_the_same_plain_data_in_every_protocol(value: Any, plain: Any, protocol: int):
    assert read_pickle(pickle.dumps(value, protocol)) == plain


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**200), 2**200)
    | st.text()
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=25,
)


@given(JSON, st.sampled_from(PROTOCOLS))
def test_whatever_json_can_hold_comes_back_as_it_was(value: Any, protocol: int):
    assert read_pickle(pickle.dumps(value, protocol)) == value


@given(st.binary(max_size=200))
def test_any_bytes_are_data_or_one_clear_error(data: bytes):
    with suppress(BadFile):
        json.dumps(read_pickle(data))


@pytest.mark.process
def test_a_checkpoint_reads_the_same_in_every_protocol_and_its_package_is_never_imported(tmp_path: Path):
    write_checkpoints(tmp_path / "c", *[(f"{protocol}.pkl", "support", 0, 3, protocol) for protocol in PROTOCOLS])
    first, *others = [read_pickle((tmp_path / "c" / f"{protocol}.pkl").read_bytes()) for protocol in PROTOCOLS]
    assert all(other == first for other in others)
    assert first["$class"] == "toolboxv2.mods.isaa.base.Agent.types.AgentCheckpoint"
    assert first["agent_state"]["amd_data"]["name"] == "support"
    assert first["results_store"]["usage"] == {
        "$class": "toolboxv2.mods.isaa.base.Agent.types.Usage",
        "calls": 3,
        "tools": ["a", "b"],
    }
    assert first["metadata"]["self"] == {"$cycle": True}
    assert first["active_flows"] == [{"$cycle": True}]
    assert not [each for each in sys.modules if each.startswith("toolboxv2")]


def test_python_2_is_read_too():
    python_2 = b"S'caf\\xe9'\np0\n(lp1\nI01\naI00\naL5L\na."
    assert read_pickle(b"(" + python_2[:-1] + b"t.") == ["café", [True, False, 5]]
    assert read_pickle(b"U\x03abc.") == "abc"
    assert read_pickle(b"c__builtin__\nset\n((lI1\natR.") == [1]


@pytest.mark.parametrize(
    ("zone", "plain"), [("UTC", "2026-01-05T00:00:00+00:00"), ("Europe/Berlin", "2026-01-05T00:00:00")]
)
def test_a_time_in_a_named_zone_keeps_its_clock_and_only_utc_has_an_offset(zone: str, plain: str):
    """What another name means depends on a database of zones, which is not asked."""
    named = call(dotted("zoneinfo", "ZoneInfo._unpickle"), text(zone), b"K\x01")
    packed = raw(bytes([2026 >> 8, 2026 & 255, 1, 5, 0, 0, 0, 0, 0, 0]))
    assert read_pickle(whole(call(name("datetime", "datetime"), packed, named))) == plain


def test_what_is_shared_is_shared_in_the_plain_data():
    shared = [1]
    plain = read_pickle(pickle.dumps([shared, shared]))
    assert plain[0] is plain[1]


def test_limits_are_those_that_it_is_given():
    with pytest.raises(BadFile, match=r"x\.pkl \(byte 3, EMPTY_LIST\): .*more than 2 opcodes"):
        read_pickle(b"\x80\x04N].", "x.pkl", PickleLimits(opcodes=2))


def test_what_is_deeper_than_allowed_is_refused_and_what_is_as_deep_is_read():
    def nested(levels: int) -> bytes:
        return b"]" * levels + b"a" * (levels - 1) + b"."

    deepest = PickleLimits().depth
    assert read_pickle(nested(deepest + 1))
    with pytest.raises(BadFile, match="nested deeper"):
        read_pickle(nested(deepest + 2))


@pytest.mark.process
def test_the_reader_needs_nothing_but_the_standard_library():
    look = (
        "import sys; sys.path.append(sys.argv[1]); import rl.from_systems.toolbox.checkpoints.agents_folder; "
        "print(sorted({'django', 'torch', 'toolboxv2'} & set(sys.modules)))"
    )
    root = str(Path(__file__).resolve().parents[4])
    done = subprocess.run([sys.executable, "-I", "-S", "-c", look, root], capture_output=True, text=True, timeout=60)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")
