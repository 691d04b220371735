"""Asks AGENT of the gateway at ADDRESS with the key KEY by Codex, which is installed in this folder, with the file that the
page at PATH writes out; prints what came of it as a line of JSON."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

address, key, model, page = sys.argv[1:]
codex, home = Path("node_modules/.bin/codex").resolve(), Path("home").resolve()
settings = re.findall(r"```toml\n(.*?)```", Path(page).read_text(), re.DOTALL)[0]
(home / ".codex").mkdir(parents=True)
(home / ".codex/config.toml").write_text(
    settings.replace("http://127.0.0.1:8000", address).replace("support-chat", model)
)
environment = {"PATH": os.environ["PATH"], "HOME": str(home), "RATCHET_KEY": key}


def run(*arguments: str) -> str:
    return subprocess.run(
        [codex, *arguments],
        cwd=home,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    ).stdout


found = {"client": "Codex", "version": run("--version").split()[-1], "call": "`codex exec`", "by": ""}
found["question"] = "hello # Codex"
try:
    events = [
        json.loads(line)
        for line in run("exec", "--json", "--skip-git-repo-check", found["question"]).strip().split("\n")
    ]
    messages = [event["item"]["text"] for event in events if event.get("item", {}).get("type") == "agent_message"]
    found["id"], found["answer"] = None, messages[-1]  # its events name no response
except (subprocess.CalledProcessError, IndexError) as error:
    found["error"] = f"{error}: {getattr(error, 'stdout', '')}{getattr(error, 'stderr', '')}"
print(json.dumps(found))
