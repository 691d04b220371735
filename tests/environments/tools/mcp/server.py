"""A server of the official package. ``server.py`` speaks over its pipes, ``server.py PORT`` by HTTP."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Annotated, Literal

from mcp.server.mcpserver import Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, TextContent
from pydantic import BaseModel, Field

server = MCPServer("shop", log_level="ERROR")


class Order(BaseModel):
    item: str
    pieces: Annotated[int, Field(ge=1)] = 1


class Price(BaseModel):
    item: str
    cents: int


@server.tool()
def add(a: int, b: int = 1) -> str:
    """Adds two numbers.

    Whatever they are."""
    return str(a + b)


@server.tool()
def order(order: Order, way: Literal["air", "sea"] | None = None) -> str:
    """Orders."""
    return f"{order.pieces} x {order.item} by {way}"


@server.tool()
def price(item: str) -> Annotated[CallToolResult, Price]:
    """A price without words."""
    return CallToolResult(content=[], structured_content={"item": item, "cents": 250})


@server.tool()
def refuse(words: str = "nothing left") -> str:
    """Refuses."""
    raise ToolError(words)


@server.tool()
async def hang() -> str:
    """Never answers."""
    await asyncio.sleep(600)
    return ""


@server.tool()
def die() -> str:
    """Ends the server."""
    os.write(2, b"out of tea\n")
    os._exit(3)


@server.tool()
def picture() -> list[TextContent | Image]:
    """Shows a picture."""
    return [TextContent(type="text", text="Here it is."), Image(data=b"x" * 12_000, format="png")]


@server.tool()
def long() -> str:
    """Says too much."""
    return "o" * 20_000


@server.tool()
def process() -> str:
    """Tells which process it is, and what it was given."""
    return json.dumps({"pid": os.getpid(), "environment": dict(os.environ), "cwd": str(Path.cwd())})


if __name__ == "__main__":
    os.write(2, b"warming up\n" * 50_000)
    if len(sys.argv) > 1:
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
    else:
        server.run("stdio")
