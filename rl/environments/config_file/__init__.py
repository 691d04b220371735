"""The file of ``manage.py train_agent --config``: YAML, with Miniagent's keys and a few of ours. No Django, no torch."""

from __future__ import annotations

from rl.environments.config_file.agent_file import AgentFile, read_agent_file

__all__ = ["AgentFile", "read_agent_file"]
