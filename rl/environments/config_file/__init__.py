"""The file of ``manage.py train_agent --config``: YAML. No Django, no torch."""

from __future__ import annotations

from rl.environments.config_file.agent_file import AgentFile, agent_file_of, read_agent_file
from rl.environments.config_file.document import Document, read_document

__all__ = ["AgentFile", "Document", "agent_file_of", "read_agent_file", "read_document"]
