"""ToolBoxV2's checkpoints: a folder of agents, the folder of one agent, or one file.

``rl.from_systems.toolbox.checkpoints`` reads them."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from rl.base.errors import BadFile, UsageError
from rl.base.records import Message
from rl.base.slugs import printable
from rl.collect.importers.fields import Refused
from rl.collect.traces.imported import ImportedTrace, Rejected
from rl.from_systems.toolbox.checkpoints.agents_folder import SUFFIX, AgentsFolder, named_file, read_checkpoint
from rl.from_systems.toolbox.checkpoints.overlap import Conversation, merge_checkpoints
from rl.from_systems.toolbox.trace_file import trace

ESTIMATED = {"estimated": ["tokens_in", "tokens_out", "cost", "llm_calls"]}
"""A checkpoint knows the agent's totals only, so each conversation got an even share."""


def read(path: Path) -> Iterator[ImportedTrace | Rejected]:
    """Each conversation once. Records of a folder name the agent by the name of its folder; those of one file name none."""
    if not path.is_dir():
        yield from _records(merge_checkpoints([read_checkpoint(named_file(path))]), "")
        return
    folder = path.resolve()
    if any(folder.glob(f"*{SUFFIX}")):
        loader, agents = AgentsFolder(folder.parent), [folder.name]
    else:
        loader = AgentsFolder(folder)
        agents = loader.discover_all_agents()
    if not agents:
        raise BadFile(path, f"holds no checkpoints; they are files like Agents/checkpoint/my-agent/checkpoint{SUFFIX}")
    for agent in agents:
        try:
            yield from _records(loader.find_conversations(agent), agent)
        except UsageError as error:
            yield Rejected(agent, str(error))
    yield from loader.rejected


def _records(conversations: list[Conversation], agent: str) -> Iterator[ImportedTrace | Rejected]:
    for number, conversation in enumerate(conversations, start=1):
        file = f"{agent}/{conversation.filename}" if agent else conversation.filename
        where = f"{printable(file)}, conversation {number}"
        details = {"tools": list(conversation.tools)} if conversation.tools else {}
        try:
            record = trace(conversation.trace.to_dict(), where, agent=agent, details=details)
        except Refused as refused:
            yield Rejected(where, str(refused))
            continue
        if any((record.tokens_in, record.tokens_out, record.cost, record.llm_calls)):
            record = replace(record, details={**record.details, **ESTIMATED})
        if conversation.system_prompt.strip():
            instructions = Message(role="system", content=conversation.system_prompt)
            record = replace(record, prompt=(instructions, *record.prompt))
        yield record
