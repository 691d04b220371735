"""Miniagent: agents that call tools, trained on tasks from a YAML file and a folder of JSON lines.

Imports: base, environments.
"""
