"""Forgets a person, or says what that would do.

The database part is one transaction. The receipt is written before it ends, so that whatever interrupts the rest, the same
command again finds what was left to do."""

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from itertools import chain, islice
from typing import Any

from django.conf import settings
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Q

from rl.base.errors import RatchetError, RunConflict, UsageError
from rl.base.names import did_you_mean
from rl.collect.traces.rows import chunks
from rl.forgetting import receipts
from rl.forgetting.erasing import erase_deleted
from rl.forgetting.files import delete_scores, delete_waiting, sweep, waiting_files
from rl.forgetting.receipts import Receipt
from rl.forgetting.records import AT_ONCE, Left, Person, Uses, delete_rows, find_left, find_uses, has_rows
from rl.models import Agent, AuditEvent, Evaluation, Feedback, Trace, TrainingRun, TrainingSet
from rl.online_learner import OnlineLearner
from rl.operations import audit
from rl.operations.backup import backups
from rl.serving.gateway.pending import deliver_all


def preview(person: Person) -> Receipt:
    """What ``forget`` would do now: its own transaction, rolled back."""
    before = list(receipts.earlier(person))
    with transaction.atomic():
        uses, deleted = _forget_rows(person, before)
        transaction.set_rollback(True)
    return {**_receipt(person, uses, deleted), "files": {"deleted": [], "kept": sweep(uses, delete=False).kept}}


def forget(
    person: Person, *, delete_files: bool = False, retrain: bool = True, erase: Callable[[], str] = erase_deleted
) -> Receipt:
    """Raises RunConflict while a run of an agent that they rated or asked is at work: it may be learning from them.

    ``erase``: cleans the database's files of what was deleted, and says what it could not."""
    deliver_all()
    before, path = list(receipts.earlier(person)), receipts.new_path(person)
    with transaction.atomic():
        uses, deleted = _forget_rows(person, before, refuse=True)
        receipt = _receipt(person, uses, deleted)
        receipts.write(path, receipt)
        audit.record(
            audit.Action.FORGOT, f"person {person.marks[0]}", agent=person.agent, **_summary(receipt, path.name)
        )
    gone, swept = delete_waiting(person) + delete_scores(), sweep(uses, delete=delete_files)
    receipt["files"] = {"deleted": gone + swept.deleted, "kept": swept.kept}
    if retrain:
        known = {} if deleted else receipts.known_runs(before)
        learners = {run.agent_id: run.agent for run in uses.runs}.values()  # who had begun to learn from them
        receipt["retrain"] = [_retrain(agent, known) for agent in learners]
    receipt["remains"]["database"] = erase()
    receipt |= {"state": "done", "finished_at": datetime.now(UTC).isoformat(timespec="seconds"), "receipt": path.name}
    receipts.write(path, receipt)
    return receipt


def _forget_rows(person: Person, before: list[Receipt], *, refuse: bool = False) -> tuple[Uses, dict[str, int]]:
    """In the caller's transaction."""
    left = find_left(person)
    if refuse:
        running = TrainingRun.objects.filter(agent__in=left.agent_ids(), state=TrainingRun.State.RUNNING)
        if run := running.select_related("agent").first():
            raise RunConflict(
                f"run {run.pk} of {run.agent.name} is at work and may be learning from them: wait for its end, or cancel it"
            )
    uses = find_uses(left, receipts.known_sets(before))
    examples = remove_examples(left, uses.training_sets)
    deleted = delete_rows(person, left)
    return uses, deleted | ({"examples of Evaluation": examples} if examples else {})


def _receipt(person: Person, uses: Uses, deleted: dict[str, int]) -> Receipt:
    return {
        "person": person.marks,
        "agent": person.agent.name if person.agent else None,
        "state": "begun",
        "begun_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "deleted": deleted,
        "uses": uses.as_dict(),
        "files": {"deleted": [], "kept": {}},
        "retrain": [],
        "remains": find_remaining(person),
    }


def _summary(receipt: Receipt, name: str) -> dict[str, Any]:
    uses = receipt["uses"]
    versions = [f"{row['agent']} {row['version']}" for row in uses["versions"]]
    sets = [row["id"] for row in uses["training_sets"]]
    return {"deleted": receipt["deleted"], "training_sets": sets, "versions": versions, "receipt": name}


def _retrain(agent: Agent, known: dict[str, int]) -> dict[str, Any]:
    """The run that is clean of them, or why there is none."""
    learner = OnlineLearner(agent)
    number, reason = known.get(agent.name), "queued before"
    waiting = agent.runs.filter(state=TrainingRun.State.QUEUED, training_set=None).first()
    if number is None and waiting:
        number, reason = waiting.pk, "waits already, and reads the ratings when it starts"
    elif number is None and not learner.is_trainable():
        reason = "what is left gives no row to learn from"
    elif number is None:
        try:
            number, reason = learner.trigger_retrain().pk, "queued"
        except RatchetError as error:
            reason = f"no run could be queued: {error}"
    return {"agent": agent.name, "run": number, "reason": reason}


_ELSEWHERE = (
    "logs of the site and of servers before it, and files that were exported or copied elsewhere, are not looked at"
)


def find_remaining(person: Person) -> dict[str, Any]:
    """What no command can take back: counts of the rows that still name them, and the backups that were made until now."""
    targets = Q(actor__in=person.names)
    for name in person.names:
        targets |= Q(target__contains=name.removeprefix("user:"))
    return {
        "accounts": len(person.user_ids),
        "audit_events": AuditEvent.objects.filter(targets).count(),
        "admin_log_entries": LogEntry.objects.filter(user__in=person.user_ids).count(),
        "backups": [path.name for path in backups(settings.BACKUP_DIR)],
        "elsewhere": _ELSEWHERE,
    }


_HEAD = 60
"""Characters that are compared: reports cut long texts."""


def remove_examples(left: Left, training_sets: Iterable[TrainingSet]) -> int:
    """Out of evaluations, which keep a few in words. How many evaluations had some."""
    heads = frozenset(text[:_HEAD] for text in _texts(left) if text.strip())
    changed = 0
    if heads:
        for evaluation in Evaluation.objects.filter(training_set__in=list(training_sets)):
            report = _without(evaluation.report, heads)
            if report != evaluation.report:
                evaluation.report = report
                evaluation.save(update_fields=["report"])
                changed += 1
    return changed


def _texts(left: Left) -> Iterator[str]:
    for answers in chunks(left.traces, AT_ONCE):
        for prompt, response in Trace.objects.filter(pk__in=answers).values_list("prompt", "response").iterator():
            yield response
            yield from (message["content"] for message in prompt if message["role"] == "user")
    for part in chunks(left.feedback, AT_ONCE):
        yield from Feedback.objects.filter(pk__in=part).exclude(text="").values_list("text", flat=True)


def _without(value: Any, heads: frozenset[str]) -> Any:
    if isinstance(value, dict):
        return {name: _without(entry, heads) for name, entry in value.items()}
    if isinstance(value, list):
        return [entry for entry in value if not _holds(entry, heads)]
    return value


def _holds(value: Any, heads: frozenset[str]) -> bool:
    if isinstance(value, dict):
        return any(_holds(entry, heads) for entry in value.values())
    if isinstance(value, list):
        return any(_holds(entry, heads) for entry in value)
    return isinstance(value, str) and value[:_HEAD] in heads


_MOST = 20_000
"""Names that are looked through for a near one."""


def require_somebody(person: Person) -> None:
    """Raises UsageError where nothing here is theirs, and no receipt says that something was."""
    left = find_left(person)
    here = left.feedback or left.traces or person.user_ids or has_rows(person) or any(waiting_files(person))
    if not here and next(receipts.earlier(person), None) is None:
        where = f" at {person.agent.name}" if person.agent else ""
        name = person.names[0]
        raise UsageError(
            f"nobody is known as {name[:100]!r}{where}{did_you_mean(name, _names(), most=3)}: nothing was deleted"
        )


def _names() -> list[str]:
    raters = Feedback.objects.order_by("rater").values_list("rater", flat=True).distinct()
    units = Trace.objects.exclude(unit="").order_by("unit").values_list("unit", flat=True).distinct()
    accounts = (f"user:{name}" for name in User.objects.order_by("pk").values_list("username", flat=True))
    return [*dict.fromkeys(islice(chain(accounts, raters[:_MOST], units[:_MOST]), _MOST))]
