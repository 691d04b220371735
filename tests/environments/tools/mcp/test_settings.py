from typing import Any

import pytest

from rl.base.errors import UsageError
from rl.environments.tools.mcp.settings import McpServer, servers_of

SECRET = "hunter2-hunter2"


def test_servers_are_reached_by_a_command_or_an_address():
    files, wiki = servers_of(
        {
            "files": {"command": ["python", "server.py"], "env": {"LEVEL": "3"}, "tools": ["read"], "prefix": True},
            "wiki": {"url": "https://wiki.example/mcp", "headers_env": {"Authorization": "WIKI"}, "timeout": 5},
        }
    )
    assert (files.name, files.command, files.tools, files.prefix, files.timeout) == (
        "files",
        ["python", "server.py"],
        ["read"],
        True,
        30.0,
    )
    assert (wiki.name, wiki.url, wiki.tools, wiki.timeout) == ("wiki", "https://wiki.example/mcp", None, 5)


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({}, "tools.mcp must have a name for each server"),
        (["files"], "tools.mcp must have a name for each server"),
        ({"a b": {"command": ["x"]}}, "a server's name has letters, digits, _ and -, at most 32, not 'a b'"),
        ({7: {"command": ["x"]}}, "a server's name has letters"),
        ({"s": None}, "tools.mcp.s must say how the server is reached: command or url"),
        ({"s": {}}, "tools.mcp.s needs either command or url, and not both"),
        (
            {"s": {"command": ["x"], "url": "https://x.example"}},
            "tools.mcp.s needs either command or url, and not both",
        ),
        ({"s": {"comand": ["x"]}}, r"unknown key 'tools.mcp.s.comand' (did you mean command?); known: command, env"),
        (
            {"s": {"url": "https://x.example", "headers": {}}},
            "unknown key 'tools.mcp.s.headers' (did you mean headers_env?",
        ),
        ({"s": {"command": "python x.py"}}, "tools.mcp.s.command must be a list of texts, like [python, server.py]"),
        ({"s": {"command": ["sleep", 3]}}, "tools.mcp.s.command must be a list of texts"),
        ({"s": {"command": ["x"], "tools": []}}, "tools.mcp.s.tools names no tool"),
        ({"s": {"command": ["x"], "tools": "read"}}, "tools.mcp.s.tools must be a list of texts"),
        ({"s": {"command": ["x"], "env": {"PORT": 80}}}, "tools.mcp.s.env must be names with texts"),
        ({"s": {"command": ["x"], "cwd": 3}}, "tools.mcp.s.cwd must be a text, not '3'"),
        ({"s": {"command": ["x"], "prefix": "yes"}}, "tools.mcp.s.prefix must be true or false, not 'yes'"),
        ({"s": {"command": ["x"], "timeout": 0}}, "tools.mcp.s.timeout must be a number from 0.1 to 600, not '0'"),
        (
            {"s": {"command": ["x"], "start_timeout": True}},
            "tools.mcp.s.start_timeout must be a number from 0.1 to 600",
        ),
        ({"s": {"command": ["x"], "headers_env": {"A": "B"}}}, "tools.mcp.s.headers_env is only for servers with url"),
        ({"s": {"url": "https://x.example", "cwd": "/"}}, "tools.mcp.s.cwd is only for servers with command"),
        ({"s": {"url": "http://x.example/mcp"}}, "must begin with https:// (http:// only for this machine)"),
        ({"s": {"url": "https://me:pw@x.example/"}}, "tools.mcp.s.url must have no user name, '?' or '#'"),
        ({"s": {"url": "https://x.example/?key=1"}}, "secrets go by headers_env"),
        ({"s": {"url": "https://x.example", "headers_env": {"a b": "B"}}}, "'a b' is not a header name"),
    ],
)
def test_what_is_impossible_is_named(values: Any, told: str):
    with pytest.raises(UsageError) as refused:
        servers_of(values)
    assert told in str(refused.value)


@pytest.mark.parametrize(
    "values",
    [
        {"command": ["x"], "env": {"SHOP_TOKEN": SECRET}},
        {"command": ["x"], "env": {"apikey": SECRET}},
        {"command": ["x"], "env_from": [SECRET]},
        {"url": "https://x.example", "headers_env": {"Authorization": SECRET}},
    ],
)
def test_a_secret_in_the_file_is_refused_and_not_repeated(values: dict[str, Any]):
    with pytest.raises(UsageError) as refused:
        McpServer.of("shop", values)
    assert SECRET not in str(refused.value)


def test_secrets_are_taken_from_the_environment_when_they_are_needed(monkeypatch: pytest.MonkeyPatch):
    program = McpServer.of("shop", {"command": ["x"], "env": {"LEVEL": "3"}, "env_from": ["SHOP_TOKEN"]})
    web = McpServer.of(
        "web", {"url": "https://x.example", "headers_env": {"Authorization": "SHOP_TOKEN", "X-Team": "SHOP_TEAM"}}
    )
    monkeypatch.setenv("SHOP_TEAM", " blue ")
    for needed, key in ((program.environment, "shop.env_from"), (web.headers, "web.headers_env")):
        with pytest.raises(UsageError, match=f"{key}: the environment variable SHOP_TOKEN is not set"):
            needed()
    monkeypatch.setenv("SHOP_TOKEN", SECRET)
    assert program.environment() == {"LEVEL": "3", "SHOP_TOKEN": SECRET}
    assert web.headers() == {"Authorization": f"Bearer {SECRET}", "X-Team": "blue"}
    assert web.redact(f"token {SECRET} of blue") == "token *** of ***"
    monkeypatch.setenv("SHOP_TOKEN", "Basic Zm9v")
    assert web.headers()["Authorization"] == "Basic Zm9v"
    monkeypatch.setenv("SHOP_TOKEN", "two\nlines")
    with pytest.raises(UsageError, match="what SHOP_TOKEN holds cannot be sent as a header"):
        web.headers()
