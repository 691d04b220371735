"""How an agent's widgets are asked for."""

from typing import Any

from rich.table import Table

from rl.dataset_builder import taking
from rl.dataset_builder.wording import template_files, template_names
from rl.management.base import NOTHING, ActionsCommand, choose_agent
from rl.management.options import CommandOptions, option
from rl.models import Agent


class TakeOptions(CommandOptions):
    agent: str | None = option(help="whose prompts; default: the only agent")
    name: str = option(required=True, help="of the template and its file")
    part: str = option(choices=taking.PARTS, default=taking.WIDGETS, help="what the prompt asks for (widgets)")
    trace: str = option(default="", metavar="ID", help="which prompt; default: the newest with a known question")
    question: str = option(default="", metavar="WORDS", help="which words of the prompt are the question")
    use: bool = option(action="store_true", help="and make it the agent's prompt template")


class Command(ActionsCommand):
    help = "Templates of prompts and answers: list them, and take one from a prompt that the gateway recorded."
    actions = {
        "list": "all templates, and the agents that have them",
        "take": "write a template's file from a recorded prompt",
    }

    def _list(self) -> None:
        rows: list[dict[str, Any]] = []
        files = template_files()
        for name in dict.fromkeys([*template_names("prompt"), *template_names("answer")]):
            used = {
                part: list(Agent.objects.filter(**{f"{part}_template": name}).values_list("name", flat=True))
                for part in ("prompt", "answer")
            }
            rows.append({"name": name, "file": str(files[name]) if name in files else None, **used})
        table = Table("name", "file", "prompts of", "answers of")
        for row in rows:
            table.add_row(
                row["name"], row["file"] or "-", *(", ".join(row[part]) or "-" for part in ("prompt", "answer"))
            )
        self.result({"templates": rows}, table)

    def _take(self, options: TakeOptions) -> None:
        agent = choose_agent(options.agent, NOTHING, self.report)
        taken = taking.take_template(
            agent, options.name, part=options.part, trace=options.trace, question=options.question
        )
        if options.use:
            agent.prompt_template = options.name
            agent.save(update_fields=["prompt_template"])
        document = {"file": str(taken.file), "trace": str(taken.trace), "blanks": list(taken.blanks)}
        lines = [f"{taken.file}, from trace {taken.trace}; blanks: {', '.join(taken.blanks)}"]
        if taken.differing:
            lines.append("other prompts have not these lines; put blanks there, or they are learned as they stand:")
            lines += [f"  {line[:110]}" for line in taken.differing]
        self.result({**document, "differing": list(taken.differing), "used": options.use}, lines=lines)
