"""Serve, promote, roll back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.core.management.base import CommandParser

from rl.config.levels import LEVELS
from rl.management.base import RatchetCommand
from rl.management.deployments import deployments_table, plan_tables
from rl.management.options import read_options
from rl.models import Agent, ModelVersion, version_name
from rl.serving import overview, promotion, withdrawal
from rl.serving.deploy import TARGETS, deploy
from rl.serving.hosting import PROFILES


@dataclass(frozen=True, slots=True)
class Options:
    agent: str
    version_name: str
    target: str | None
    quantization: str
    model_name: str
    profile: str
    url: str
    api_key_env: str
    promote: bool
    rollback: bool
    stop: bool
    list: bool
    print_env: bool
    dry_run: bool
    env_name: str

    @property
    def only_promotes(self) -> bool:
        """Whether it is enough that the version is served, in whatever way."""
        how = self.target or self.quantization or self.model_name or self.url
        return self.promote and not self.dry_run and not how


class Command(RatchetCommand):
    help = "Serve a version by Ollama, llama.cpp or another server, make it the version in use, or go back."

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("--agent", required=True)
        parser.add_argument(
            "--version",
            dest="version_name",
            default="",
            metavar="NAME",
            help="or base, the agent's base model; default: the newest that was promoted or exported",
        )
        parser.add_argument("--target", choices=TARGETS, help="default: the agent's")
        parser.add_argument("--quantization", default="", help=f"default: the agent's; {', '.join(LEVELS)}")
        parser.add_argument("--model-name", default="", help="default: agent:version")
        parser.add_argument("--profile", choices=list(PROFILES), default="auto", help="of hosting (auto)")
        parser.add_argument("--url", default="", help="of another server with OpenAI's API")
        parser.add_argument("--api-key-env", default="", help="the environment variable that holds that server's key")
        parser.add_argument("--promote", action="store_true", help="make it the version in use")
        deed = parser.add_mutually_exclusive_group()
        deed.add_argument("--rollback", action="store_true", help="go back to the version before, in one step")
        deed.add_argument("--stop", action="store_true", help="serve the version no more")
        deed.add_argument("--list", action="store_true", help="say what is served")
        deed.add_argument(
            "--print-env", action="store_true", help="print the environment that leads to the version in use"
        )
        deed.add_argument("--dry-run", action="store_true", help="say what would be done, and do nothing")
        parser.add_argument("--env-name", default="", help="with --print-env: the first variable's name")

    def run(self, **arguments: Any) -> None:
        options = read_options(Options, arguments)
        agent = Agent.by_name(options.agent)
        if options.list:
            entries = overview.list_deployments(agent)
            self.result({"agent": agent.name, "served": entries}, deployments_table(entries))
        elif options.print_env:
            variables = overview.environment(agent, options.env_name)
            self.result(variables, lines=overview.as_shell(variables))
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
        if options.only_promotes and overview.is_served(agent, version):
            promotion.promote(agent, version, report=self.report)
            self._say_in_use(agent, version)
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
            target=destination.target,
            quantization=options.quantization,
            model_name=destination.model_name,
            profile=options.profile,
            url=destination.url,
            api_key_env=destination.api_key_env,
            report=self.report,
        )
        if options.promote:
            promotion.promote(agent, version, report=self.report)
        in_use = "; it is the version in use" if options.promote else ""
        self.result(
            {"version": name, "target": row.target, "model_name": row.model_name, "promoted": options.promote},
            lines=[f"{name} is served as {row.model_name} ({row.get_target_display()}){in_use}"],
        )

    def _say_in_use(self, agent: Agent, version: ModelVersion | None) -> None:
        name = version_name(version)
        self.result({"agent": agent.name, "in_use": name}, lines=[f"{agent.name} uses {name} now"])
