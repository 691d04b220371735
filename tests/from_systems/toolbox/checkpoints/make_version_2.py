"""Checkpoints of version 2.0 as ToolBoxV2 writes them: by a process that has its class, which this one has not."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

CLASS = """
from dataclasses import dataclass, field
from datetime import datetime

@dataclass
class AgentCheckpoint:
    version: str = "2.0"
    timestamp: datetime = field(default_factory=datetime.now)
    agent_name: str = ""
    agent_config: dict = field(default_factory=dict)
    sessions_data: dict = field(default_factory=dict)
    tool_registry_data: dict = field(default_factory=dict)
    statistics: dict = field(default_factory=dict)
    bind_state: object = None
    metadata: dict = field(default_factory=dict)
"""

WRITER = """
import datetime, json, pathlib, pickle, sys
sys.path.insert(0, sys.argv[1])
from toolboxv2.mods.isaa.base.Agent.checkpoint_manager import AgentCheckpoint

def session(name, agent, messages, most):
    return {"session_id": name, "agent_name": agent, "created_at": "2026-02-01T08:00:00", "version": 2,
            "last_activity": "2026-02-01T09:00:00", "metadata": {}, "tool_restrictions": {},
            "vfs": {"files": {"a.md": "text"}}, "rule_set": {}, "skills": {}, "chat_history": messages,
            "max_history": most, "kb": bytes(range(256)), "docker_enabled": False, "lsp_enabled": True}

def tool(name):
    schema = {"type": "function", "function": {"name": name, "description": "Looks it up.", "parameters": {}}}
    return {"name": name, "description": "Looks it up.", "args_schema": "(query: str)", "category": ["web"],
            "flags": {}, "source": "local", "server_name": None, "original_name": name, "metadata": {},
            "created_at": "2026-02-01T08:00:00", "call_count": 3, "last_called": None,
            "litellm_schema": schema if name == "search" else None}

for made in json.loads(sys.argv[2]):
    agent = made["agent"]
    sessions = {name: session(name, agent, messages, made["most"]) for name, messages in made["sessions"].items()}
    checkpoint = AgentCheckpoint(
        timestamp=datetime.datetime.fromisoformat(made["timestamp"]),
        agent_name=agent,
        agent_config={"name": agent, "fast_llm_model": "small", "complex_llm_model": "large",
                      "system_message": made["system"], "temperature": 0.7, "max_tokens": 2048,
                      "max_input_tokens": 32768, "vfs_max_window_lines": 250,
                      "persona": {"name": "p", "style": "s", "tone": "t", "personality_traits": [],
                                  "custom_instructions": ""}},
        sessions_data={"version": 2, "agent_name": agent, "default_max_history": 100, "vfs_max_window_lines": 250,
                       "rule_config_path": None, "total_sessions_created": 1, "enable_lsp": True,
                       "enable_docker": False, "toolboxv2_wheel_path": pathlib.PurePosixPath("/w"),
                       "docker_config": None, "skills_manager": None, "sessions": sessions},
        tool_registry_data={"tools": {name: tool(name) for name in ("search", "fetch")}, "stats": {"total_calls": 3}},
        statistics={"total_tokens_in": 1000, "total_tokens_out": 100, "total_cost": 2.0, "total_llm_calls": 4},
        metadata={"created_by": "agent", "agent_version": "2", "checkpoint_version": "2.0",
                  "first_used": datetime.datetime(2026, 2, 1, 8)},
    )
    path = pathlib.Path(made["path"])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pickle.dumps(checkpoint, made["protocol"]) if made["protocol"] else pickle.dumps(checkpoint))
    path.with_suffix(".meta.json").write_text(json.dumps({"summary": "x", "timestamp": made["timestamp"]}))
"""
SYSTEM = "You are a careful assistant."


def run(query: str, answer: str, *between: dict[str, Any]) -> list[dict[str, Any]]:
    """The messages of one finished run."""
    return [
        {"role": "user", "content": query},
        *between,
        {"role": "assistant", "content": f"\N{BAR CHART} RUN SUMMARY [r1]: did {query}"},
        {"role": "assistant", "content": answer},
    ]


def checkpoint(path: Path, *messages: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """What ``write_version_2`` shall write: one session, unless ``sessions`` says otherwise."""
    made = {
        "path": str(path),
        "agent": "coder",
        "timestamp": "2026-03-01T14:05:00",
        "system": SYSTEM,
        "most": 100,
        "protocol": None,
        "sessions": {"default": list(messages)},
    }
    return {**made, **changes}


def write_version_2(folder: Path, *wanted: dict[str, Any]) -> None:
    """``folder``: where the writer's package is put."""
    package = folder / "toolboxv2" / "mods" / "isaa" / "base" / "Agent"
    package.mkdir(parents=True, exist_ok=True)
    (package / "checkpoint_manager.py").write_text(CLASS)
    subprocess.run([sys.executable, "-c", WRITER, str(folder), json.dumps(wanted)], check=True, timeout=60)
