"""What chat templates are told beside the messages, alike in training, measuring and serving."""

from typing import Any

SWITCH = "enable_thinking"
"""What most templates, llama-server and the settings of a tokenizer call it whether the model thinks."""
DATE = "26 Jul 2024"
"""What Llama's templates fall back on where nobody says the date; llama.cpp would say today's."""


def template_settings(thinks: bool) -> dict[str, Any]:
    """Variables of a template. ``thinks``: whether the model thinks before it answers, which Qwen, GLM, Nemotron and Gemma
    call by the first name, DeepSeek, Granite and Kimi by the second. A template leaves alone what it does not know, so a
    model that always thinks goes on to do so."""
    return {SWITCH: thinks, "thinking": thinks, "date_string": DATE}
