"""How a question is put and an answer is written, where records hold a choice and no text: which widgets, which variant.

What a model learns is what it is asked later, so an agent may have the templates of the application that asks it:
Ratchet's own are ``plain``, other systems bring theirs when the app starts, and the operator writes more in files.

Imports: base.
"""

from __future__ import annotations

from rl.base.leaves import import_name
from rl.base.names import require_known
from rl.data_formatter.wording.contract import AnswerTemplate, PromptTemplate, Wording
from rl.data_formatter.wording.plain import ANSWERS, PROMPTS

PROMPT_TEMPLATES: dict[str, str] = {"plain": "rl.data_formatter.wording.plain.PROMPTS"}
"""Name to the dotted path of a PromptTemplate."""
ANSWER_TEMPLATES: dict[str, str] = {"plain": "rl.data_formatter.wording.plain.ANSWERS"}
"""Name to the dotted path of an AnswerTemplate."""
PLAIN = Wording(PROMPTS, ANSWERS)


def prompt_template(name: str) -> PromptTemplate:
    """Raises UsageError that lists the known ones."""
    require_known("prompt template", name, PROMPT_TEMPLATES)
    template: PromptTemplate = import_name(PROMPT_TEMPLATES[name])
    return template


def answer_template(name: str) -> AnswerTemplate:
    """Raises UsageError that lists the known ones."""
    require_known("answer template", name, ANSWER_TEMPLATES)
    template: AnswerTemplate = import_name(ANSWER_TEMPLATES[name])
    return template
