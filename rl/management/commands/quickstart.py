"""The whole loop, then the site."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

from django.conf import settings
from rich.table import Table
from rich.text import Text

from rl.config.embedded_models import EMBEDDED_MODELS
from rl.demo.load import DEMOS
from rl.demo.mailroom import TEAMS
from rl.lm import base_models
from rl.management.base import RatchetCommand
from rl.management.options import CommandOptions, option, port_number, require_free
from rl.management.tables import evaluation_document, evaluation_tables, verdict_line
from rl.models import Agent
from rl.quickstart import steps
from rl.quickstart.job import NO_TEAM, Job, Sorted

Result = TypeVar("Result")


def _login(admin: steps.Admin) -> str:
    lost = f"(password lost? python3 manage.py changepassword {admin.username})"
    return f"log in as {admin.username} {f'with the password {admin.password}' if admin.password else lost}"


def _questions(pairs: list[dict[str, str]]) -> Table:
    table = Table("question", "before", "after", title="The same questions, before and after", title_justify="left")
    table.show_lines = True
    for pair in pairs:
        table.add_row(*(Text(pair[name]) for name in ("prompt", "before", "after")))
    return table


def describe(mail: Sorted) -> str:
    """Both figures, and who gave which answers."""
    before, after, of = (mail.right[name] for name in ("before", "after", "of"))
    return (
        f"right team for {after} of {of} messages that nobody corrected, as {mail.answered_by} answers now; for {before} "
        "before, when the base model said what it liked"
    )


def _confusion(mail: Sorted) -> Table:
    named = [*TEAMS, *([NO_TEAM] if any(NO_TEAM in row for row in mail.confusion.values()) else [])]
    title = "Now: teams that should answer (rows), and teams that were named (columns)"
    table = Table("", *named, title=title, title_justify="left")
    for team, row in mail.confusion.items():
        table.add_row(team, *(str(row.get(name, "")) for name in named))
    return table


def _next_step(agent: Agent) -> str:
    if steps.is_job(agent):
        return f"next: type a message of your own under /try/{agent.name}/, correct the answer, and type a like one"
    return f"next: rate some answers, then run 'manage.py train_mpo --agent {agent.name}' again"


class Options(CommandOptions):
    model: str = option(
        choices=list(EMBEDDED_MODELS),
        default=settings.DEFAULT_BASE_MODEL,
        help="; ".join(f"{name}: {what}" for name, what in EMBEDDED_MODELS.items()),
    )
    demo: str = option(
        choices=list(DEMOS),
        default="",
        help="; ".join(f"{name}: {demo.settings['description']}" for name, demo in DEMOS.items()),
    )
    seed: int = option(default=42, help="of the simulated people and of the training (42)")
    no_serve: bool = option(action="store_true", help="start no site")
    yes: bool = option(action="store_true", help="install packages without asking")
    port: int = option(type=port_number, default=8000, help="of the site (8000)")


class Command(RatchetCommand):
    help = "From nothing to a trained, measured and served model, and a running site: the whole loop on demo data."
    requires_system_checks: list[str] = []  # the database is not there yet

    def run(self, options: Options) -> None:
        self.number = 0
        if not options.no_serve:
            require_free(options.port)
        seconds = os.environ.get("RATCHET_SETUP_SECONDS")
        self._step("packages", lambda: f"installed in {seconds} s" if seconds else "installed already")
        self._step("database", steps.prepare_database)
        admin = self._step(  # with the password: whoever stops the rest half-way can log in all the same
            "admin user",
            steps.prepare_admin,
            lambda admin: (
                f"{admin.username}, password {admin.password}" if admin.password else f"{admin.username} exists"
            ),
        )
        self._step(
            f"base model: {EMBEDDED_MODELS[options.model]}", lambda: base_models.resolve(options.model, self.report)
        )
        agent, _ = self._step(
            "demo data", lambda: steps.prepare_demo(options.demo, options.model, options.seed), lambda result: result[1]
        )
        if steps.serves(agent):
            self._step("llama.cpp serves the base model", lambda: steps.deploy_base(agent, self.report))
        with self._site(options, agent) as site, suppress(KeyboardInterrupt):  # the way to stop it
            self._learn(agent, admin, options)
            if site:
                site.wait()

    @contextmanager
    def _site(self, options: Options, agent: Agent) -> Iterator[steps.Site | None]:
        """Runs within the block, unless nobody wants it."""
        if options.no_serve:
            yield None
            return
        site = self._step("the site", lambda: steps.Site(options.port), lambda result: result.address)
        if steps.serves(agent):
            self._say(f"      ask the base model while it learns: {site.address}/try/{agent.name}/")
        try:
            yield site
        finally:
            site.stop()

    def _learn(self, agent: Agent, admin: steps.Admin, options: Options) -> None:
        job = Job(agent, admin.user_id, options.seed) if steps.is_job(agent) else None
        if job:
            self._correct(job)
        run = self._step(
            "training run on all ratings: training, held-out evaluation, GGUF; some minutes, and Ctrl-C keeps what is done",
            lambda: steps.train(agent, options.seed, self._say),
            str,
        )
        evaluation, gguf = self._step("gate", lambda: steps.outcome(run), lambda result: result[0].verdict)
        mail = self._step("the messages that nobody corrected, asked again", job.ask_after, describe) if job else None
        links = {} if options.no_serve else steps.links(agent, run, options.port)
        questions = mail.questions if mail else steps.first_questions(evaluation)
        document = {
            "admin": {"username": admin.username, "password": admin.password},
            "run": run.pk,
            "evaluation": evaluation_document(evaluation),
            "questions": questions,
            **({"right": mail.right, "confusion": mail.confusion} if mail else {}),
            "gguf": str(gguf) if gguf else None,
            "links": links,
        }
        start = ["start the site: python3 manage.py serve"] if options.no_serve else []
        kept = f"GGUF: {gguf}" if gguf else "the version is kept, and neither exported nor served"
        lines = [verdict_line(evaluation), kept, *(f"{name}: {link}" for name, link in links.items())]
        tables = [*evaluation_tables(evaluation), *([_questions(questions[: steps.QUESTIONS])] if questions else [])]
        if mail:
            tables, lines = [*tables, _confusion(mail)], [describe(mail), *lines]
        self.result(document, *tables, lines=[*lines, *start, _login(admin), _next_step(agent)])

    def _correct(self, job: Job) -> None:
        self._step(
            "the base model says what it likes to messages",
            job.ask_before,
            lambda answers: f"{len(answers)} answers, such as: {answers[0]!r}",
        )
        self._step("simulated colleagues look at the answers", job.correct, lambda count: f"{count} corrected")

    def _step(self, name: str, work: Callable[[], Result], tell: Callable[[Result], str] = str) -> Result:
        """Runs one numbered step and says what came of it, and how long it took."""
        self.number += 1
        self._say(f"[{self.number}] {name}")
        started = time.monotonic()
        result = work()
        self._say(f"      {tell(result)} ({time.monotonic() - started:.1f} s)")
        return result

    def _say(self, text: str) -> None:
        self.report.console.print(text, markup=False, highlight=False)
