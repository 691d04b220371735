import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from rl.base.errors import UsageError
from rl.environments.tools import ToolFailed, ToolRegistry
from rl.environments.tools.mcp.settings import servers_of
from rl.environments.tools.mcp.tool import LARGEST_SCHEMA, mcp_tools
from tests.environments.tools.mcp.conftest import quick

pytestmark = pytest.mark.process


Make = Callable[..., ToolRegistry]


def failure(tools: ToolRegistry, name: str, arguments: dict[str, Any]) -> ToolFailed:
    with pytest.raises(ToolFailed) as failed:
        tools.call(name, arguments)
    return failed.value


def process(tools: ToolRegistry, name: str = "process") -> dict[str, Any]:
    return json.loads(tools.call(name, {}))


def test_the_tools_are_the_servers_with_their_own_schemas(shop: ToolRegistry):
    schemas = {schema["function"]["name"]: schema["function"] for schema in shop.schemas}
    assert {"add", "order", "hang", "die"} <= set(schemas)
    assert schemas["add"]["description"] == "Adds two numbers. Whatever they are."
    assert schemas["add"]["parameters"]["required"] == ["a"]
    order = schemas["order"]["parameters"]
    assert order["properties"]["order"] == {"$ref": "#/$defs/Order"}
    assert order["$defs"]["Order"]["required"] == ["item"]
    assert schemas["hang"]["parameters"] | {"title": ""} == {
        "type": "object",
        "properties": {},
        "required": [],
        "title": "",
    }


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("add", {"a": 2, "b": 3}, "5"),
        ("order", {"order": {"item": "tea", "pieces": 2}, "way": "sea"}, "2 x tea by sea"),
        ("price", {"item": "tea"}, '{"item":"tea","cents":250}'),
        ("picture", {}, "Here it is.\n[image, 12 kB, not shown]"),
        ("long", {}, "o" * 16_000 + "… (4000 more characters)"),
    ],
    ids=["text", "nested", "structure", "image", "long"],
)
def test_a_call_returns_what_an_agent_can_read(shop: ToolRegistry, name: str, arguments: dict[str, Any], told: str):
    assert shop.call(name, arguments) == told


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("refuse", {"words": "no tea today"}, "no tea today"),
        ("add", {}, "add cannot be called so: the arguments: 'a' is a required property"),
        ("add", {"a": "two"}, "add cannot be called so: the argument a: 'two' is not of type 'integer'"),
        (
            "order",
            {"order": {"item": "tea", "pieces": 0}},
            "the argument order.pieces: 0 is less than the minimum of 1",
        ),
    ],
    ids=["refused", "missing", "type", "nested"],
)
def test_what_goes_wrong_is_told(shop: ToolRegistry, name: str, arguments: dict[str, Any], told: str):
    failed = failure(shop, name, arguments)
    assert told in str(failed)
    assert not failed.timed_out
    assert shop.call("add", {"a": 1}) == "2"


def test_a_long_refusal_is_cut(shop: ToolRegistry):
    assert len(str(failure(shop, "refuse", {"words": "no " * 1000}))) == 1000


def test_a_tool_that_hangs_is_given_up_and_the_server_serves_on(shop: ToolRegistry):
    before = process(shop)["pid"]
    failed = failure(shop, "hang", {})
    assert (failed.timed_out, str(failed)) == (True, "hang did not answer within 1 seconds")
    assert process(shop)["pid"] == before


def test_the_program_gets_little_of_our_environment(
    make_tools: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("OUR_PASSWORD", "hunter2")
    monkeypatch.setenv("SHOP_TOKEN", "open sesame")
    found = process(make_tools(env={"SHOP": "tea"}, env_from=["SHOP_TOKEN"], cwd=str(tmp_path)))
    given = found["environment"]
    assert (given["SHOP"], given["SHOP_TOKEN"], found["cwd"]) == ("tea", "open sesame", str(tmp_path))
    assert set(given) - {"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LC_CTYPE"} == {"SHOP", "SHOP_TOKEN"}
    assert capfd.readouterr() == ("", "")


def test_a_server_that_was_killed_is_started_again(shop: ToolRegistry):
    first = process(shop)["pid"]
    psutil.Process(first).kill()
    time.sleep(0.5)
    assert process(shop)["pid"] != first


def test_a_server_that_ends_during_a_call_is_started_again_by_the_next(make_tools: Make):
    tools = make_tools(command=quick({"name": "die"}, {"name": "process"}))
    first = tools.call("process", {})
    assert (
        str(failure(tools, "die", {}))
        == "the server shop was lost during the call: it ended; its last words: out of tea"
    )
    assert tools.call("process", {}) not in ("", first)


def test_a_server_that_cannot_be_started_again_is_told(make_tools: Make, tmp_path: Path):
    _, _, script, listed = quick({"name": "die"})
    copy = tmp_path / "server.py"
    copy.write_text(Path(script).read_text())
    tools = make_tools(command=[sys.executable, str(copy), listed])
    copy.write_text("raise SystemExit('sold out')")
    failure(tools, "die", {})
    assert str(failure(tools, "die", {})) == (
        "the server shop has ended and cannot be used again: it ended; its last words: sold out"
    )


def test_environments_of_the_same_settings_share_a_server(make_tools: Make):
    command = quick({"name": "one"}, {"name": "two"})
    first, same, other = (
        make_tools(command=command),
        make_tools(command=command, tools=["two"]),
        make_tools("b", command=command),
    )
    assert first.call("one", {}) == first.call("two", {}) == same.call("two", {}) != other.call("one", {})


def test_only_the_named_tools_are_given(make_tools: Make):
    command = quick({"name": "add"}, {"name": "refuse"}, {"name": "price"})
    assert list(make_tools(command=command, tools=["price", "add"])) == ["price", "add"]
    with pytest.raises(UsageError, match=r"unknown tool 'tools\.mcp\.shop\.ad' \(did you mean add\?\); known"):
        make_tools(command=command, tools=["ad"])


def test_a_name_that_is_taken_needs_a_prefix():
    shop, stall = {"command": quick({"name": "add"}, {"name": "buy"})}, {"command": quick({"name": "add"})}
    with pytest.raises(UsageError) as refused:
        mcp_tools(servers_of({"shop": shop, "stall": stall}))
    assert str(refused.value) == (
        "the MCP server shop and the MCP server stall both have a tool add: set tools.mcp.stall.prefix to true"
    )
    with pytest.raises(UsageError, match=r"the environment and the MCP server shop both have a tool add: set"):
        mcp_tools(servers_of({"shop": shop}), taken_names=["search", "add"])
    tools = ToolRegistry(mcp_tools(servers_of({"shop": shop, "stall": {**stall, "prefix": True}})))
    assert list(tools) == ["add", "buy", "stall_add"]
    assert tools.call("stall_add", {}) != tools.call("add", {})
    with pytest.raises(UsageError, match="both have a tool stall_add: rename the server"):
        mcp_tools(servers_of({"stall": {**stall, "prefix": True}}), taken_names=["stall_add"])


def test_all_pages_of_the_list_are_read(make_tools: Make):
    tools = make_tools(command=quick({"name": "one", "description": "o " * 900}, {"name": "two", "title": "Two"}))
    one, two = (schema["function"] for schema in tools.schemas)
    assert (one["name"], len(one["description"])) == ("one", 1000)
    assert two == {
        "name": "two",
        "description": "Two",
        "parameters": {"type": "object", "properties": {}, "required": []},
    }


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"command": ["no-such-program"]}, "cannot be used: No such file or directory: no-such-program"),
        ({"command": ["ls"], "cwd": "/no/such"}, "cannot be used: No such file or directory: /no/such"),
        ({"command": ["sh", "-c", "echo out of tea >&2"]}, "cannot be used: it ended; its last words: out of tea"),
        (
            {"command": ["sh", "-c", "echo hello; read _"]},
            "it ended; it writes to its standard output what is not an MCP message",
        ),
        ({"command": ["sleep", "9"], "start_timeout": 0.2}, "it was not ready within 0.2 seconds"),
        ({"command": ["ls"], "env_from": ["NOT_SET"]}, "shop.env_from: the environment variable NOT_SET is not set"),
        ({"command": quick()}, "the MCP server shop has no tools"),
        ({"command": quick({"name": "a"}, endless=True)}, "cannot be used: its list of tools has no end"),
        ({"command": quick({"name": "a.b"})}, "has a tool 'a.b': a name has letters, digits, _ and -"),
        (
            {"command": quick({"name": "a", "inputSchema": {"type": "object", "title": "t" * LARGEST_SCHEMA}})},
            "leave it out by naming the others in tools.mcp.shop.tools",
        ),
    ],
    ids=["program", "folder", "ends", "chatters", "sleeps", "secret", "none", "endless", "name", "schema"],
)
@pytest.mark.usefixtures("impatient")
def test_a_server_that_cannot_be_used_is_told_in_a_sentence(make_tools: Make, settings: dict[str, Any], told: str):
    with pytest.raises(UsageError) as refused:
        make_tools(**settings)
    assert told in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_secret_that_the_server_tells_is_not_repeated(make_tools: Make, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SHOP_TOKEN", "hunter2")
    with pytest.raises(UsageError, match=r"its last words: bad token \*\*\*$"):
        make_tools(command=["sh", "-c", "echo bad token $SHOP_TOKEN >&2"], env_from=["SHOP_TOKEN"])
