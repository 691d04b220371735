"""Serve, promote, roll back."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich.table import Table

from rl.config.levels import LEVELS
from rl.management.base import NOTHING, RatchetCommand, choose_agent, two_columns
from rl.management.options import CommandOptions, argument, option
from rl.models import Agent, ModelVersion, version_name
from rl.serving import judge_server, overview, promotion, withdrawal
from rl.serving.deploy import TARGETS, deploy
from rl.serving.hosting import PROFILES


class Options(CommandOptions):
    agent: str | None = option(help="default: the only one there is")
    version_name: str = argument(
        "--version",
        default="",
        metavar="NAME",
        help="or base, the agent's base model; default: the newest that was promoted or exported",
    )
    target: str | None = option(choices=TARGETS, help="default: the agent's")
    quantization: str = option(default="", help=f"default: the agent's; {', '.join(LEVELS)}")
    model_name: str = option(default="", help="default: agent:version")
    profile: str = option(choices=list(PROFILES), default="auto", help="of hosting (auto)")
    url: str = option(default="", help="of another server with OpenAI's API")
    api_key_env: str = option(default="", help="the environment variable that holds that server's key")
    best_of: int | None = option(
        metavar="N", help="ask for 1 to 8 answers; the agent's judge picks the one that is given"
    )
    promote: bool = option(action="store_true", help="make it the version in use")
    rollback: bool = option(one_of="deed", action="store_true", help="go back to the version before, in one step")
    stop: bool = option(one_of="deed", action="store_true", help="serve the version no more")
    list: bool = option(one_of="deed", action="store_true", help="say what is served")
    print_env: bool = option(
        one_of="deed", action="store_true", help="print the environment that leads to the version in use"
    )
    dry_run: bool = option(one_of="deed", action="store_true", help="say what would be done, and do nothing")
    env_name: str = option(default="", help="with --print-env: the first variable's name")


class Command(RatchetCommand):
    help = "Serve a version by Ollama, llama.cpp or another server, make it the version in use, or go back."

    def run(self, options: Options) -> None:
        agent = choose_agent(options.agent, NOTHING, self.report)
        if options.list:
            entries = overview.list_deployments(agent)
            unjudged = sorted({entry["unjudged"] for entry in entries if entry["unjudged"]})
            lines = [f"the first of several answers is given: {problem}" for problem in unjudged]
            self.result({"agent": agent.name, "served": entries}, deployments_table(entries), lines=lines)
        elif options.print_env:
            variables = overview.environment(agent, options.env_name)
            self.result(variables, lines=[f"export {name}={shlex.quote(value)}" for name, value in variables.items()])
        elif options.rollback:
            self._say_in_use(agent, promotion.roll_back(agent, report=self.report))
        else:
            self._deploy(agent, options)

    def _deploy(self, agent: Agent, options: Options) -> None:
        version = overview.choose_version(agent, options.version_name)
        name = version_name(version)
        if options.stop:
            stopped = withdrawal.stop_serving(agent, version, self.report)
            self.result({"version": name, "stopped": stopped}, lines=[f"{name} is not served any more"])
            return
        how = options.target or options.quantization or options.model_name or options.url
        changes = (options.promote or options.best_of is not None) and not options.dry_run
        if changes and not how and overview.is_served(agent, version):  # in whatever way
            self._change(agent, version, options)
            return
        destination = overview.destination_of(
            agent,
            version,
            target=options.target or "",
            model_name=options.model_name,
            url=options.url,
            api_key_env=options.api_key_env,
        )
        if options.dry_run:
            document = overview.plan(agent, version, destination, options.quantization, options.profile)
            self.result(document, *plan_tables(agent.name, document))
            return
        row = deploy(
            agent,
            version,
            **asdict(destination),
            quantization=options.quantization,
            profile=options.profile,
            best_of=options.best_of,
            report=self.report,
        )
        if options.promote:
            promotion.promote(agent, version, report=self.report)
        in_use = "; it is the version in use" if options.promote else ""
        self.result(
            {"version": name, "target": row.target, "model_name": row.model_name, "promoted": options.promote},
            lines=[f"{name} is served as {row.model_name} ({row.get_target_display()}){in_use}"],
        )

    def _change(self, agent: Agent, version: ModelVersion | None, options: Options) -> None:
        """How a version is used that is served already."""
        problem = ""
        if options.best_of is not None:
            judge_server.set_best_of(agent, version, options.best_of)
            judge_server.end_unwanted()
            problem = judge_server.start(agent, report=self.report) if options.best_of > 1 else ""
        if options.promote:
            promotion.promote(agent, version, report=self.report)
            self._say_in_use(agent, version)
            return
        name, count = version_name(version), options.best_of
        gives = f"{name} gives the best of {count} answers" if count != 1 else f"{name} gives one answer"
        lines = [gives, *([f"the first one until then: {problem}"] if problem else [])]
        self.result({"version": name, "best_of": count, "unjudged": problem}, lines=lines)

    def _say_in_use(self, agent: Agent, version: ModelVersion | None) -> None:
        name = version_name(version)
        self.result({"agent": agent.name, "in_use": name}, lines=[f"{agent.name} uses {name} now"])


IN_USE = {"champion": "yes", "previous": "before"}
"""Alias to what the table shows of it as use."""


def deployments_table(entries: Sequence[Mapping[str, Any]]) -> Table:
    table = Table("version", title="Served", title_justify="left")
    table.add_column("in use", no_wrap=True)
    table.add_column("target", no_wrap=True)
    table.add_column("name", no_wrap=True)
    table.add_column("address", overflow="fold")
    table.add_column("alive", no_wrap=True)
    shows_best = any(entry["best_of"] > 1 for entry in entries)
    if shows_best:
        table.add_column("best of", no_wrap=True)
    for entry in entries:
        alive = {True: "yes", False: "no", None: "–"}[entry["alive"]]
        if entry["memory_bytes"] is not None:
            alive = f"{alive}, {entry['memory_bytes'] / 1e6:,.0f} MB"
        address = entry["url"] or entry["problem"]
        best = [str(entry["best_of"])] if shows_best else []
        alias = IN_USE.get(entry["alias"], "")
        table.add_row(entry["version"], alias, entry["target"], entry["model_name"], address, alive, *best)
    return table


def plan_tables(title: str, document: Mapping[str, Any]) -> list[Table]:
    """The hosting profile has a table of its own, with the reason of each number."""
    plain = {name: value for name, value in document.items() if name not in ("profile", "reasons")}
    tables = [two_columns(title, {**plain, "retired": ", ".join(document.get("retired", ())) or "none"})]
    if profile := document.get("profile"):
        table = Table("", "value", "reason", title=f"Hosting profile {profile['name']}", title_justify="left")
        for name, value in profile.items():
            if name != "name":
                table.add_row(name, str(value), document["reasons"].get(name, ""))
        tables.append(table)
    return tables
