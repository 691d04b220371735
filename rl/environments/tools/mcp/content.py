"""Results as text."""

from __future__ import annotations

import json

from mcp.types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

LONGEST_RESULT = 16_000
"""Characters that are kept of one result; the agent reads fewer."""


LONGEST_ERROR = 1000


def text_of(result: CallToolResult) -> str:
    """What an agent can read of it."""
    parts = [text for block in result.content if (text := _render_block(block))]
    has_text = any(isinstance(block, TextContent | EmbeddedResource) for block in result.content)
    if result.structured_content is not None and not has_text:
        parts.append(json.dumps(result.structured_content, ensure_ascii=False, separators=(",", ":")))
    text = "\n".join(parts)
    left_out = len(text) - LONGEST_RESULT
    return text if left_out <= 0 else f"{text[:LONGEST_RESULT]}… ({left_out} more characters)"


def _render_block(block: ContentBlock) -> str:
    match block:
        case TextContent():
            return block.text
        case ImageContent() | AudioContent():
            return f"[{block.type}, {_size(block.data)}, not shown]"
        case ResourceLink():
            return f"[{block.name}: {block.uri}]"
        case EmbeddedResource():
            return _resource(block.resource)


def _resource(resource: TextResourceContents | BlobResourceContents) -> str:
    if isinstance(resource, TextResourceContents):
        return resource.text
    return f"[{resource.uri}, {_size(resource.blob)}, not shown]"


def _size(base64: str) -> str:
    return f"{max(1, round(len(base64) * 3 / 4 / 1000))} kB"
