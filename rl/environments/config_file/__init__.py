"""The file of ``manage.py train_agent --config``: YAML. No Django, no torch."""

# ruff: noqa: F401  for others to import from here
from rl.environments.config_file.agent_file import AgentFile, agent_file_of, read_agent_file
from rl.environments.config_file.document import Document, read_document
