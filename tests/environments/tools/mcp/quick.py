"""A server without the package, ready in no time: ``quick.py TOOLS [forever]`` lists the tools of a JSON list, one on each
page. A call of ``die`` ends it, any other tells which process it is. It speaks the protocol of 2025."""

import json
import os
import sys
from typing import Any

TOOLS = json.loads(sys.argv[1])
ENDLESS = "forever" in sys.argv


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    if method == "initialize":
        info = {"name": "quick", "version": "1"}
        return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        number = int(params.get("cursor", 0))
        tools = [{"inputSchema": {"type": "object"}, **TOOLS[number % len(TOOLS)]}] if TOOLS else []
        return {"tools": tools, **({"nextCursor": str(number + 1)} if number + 1 < len(TOOLS) or ENDLESS else {})}
    if method == "tools/call":
        if params["name"] == "die":
            os.write(2, b"out of tea\n")
            os._exit(3)
        return {"content": [{"type": "text", "text": str(os.getpid())}]}
    return None


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        found = answer(message["method"], message.get("params", {}))
        outcome = {"result": found} if found else {"error": {"code": -32601, "message": "Method not found"}}
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **outcome}) + "\n")
        sys.stdout.flush()
