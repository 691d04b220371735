"""Learn from labels, propose labels."""

from typing import Any

from rich.table import Table

from rl import auto_labels
from rl.auto_labels.learning import Preferences
from rl.base.errors import UsageError
from rl.dataset_builder.read.follow_ups import LEAST_SEEN, read_reviews
from rl.management.base import RATINGS, RatchetCommand, choose_agent, two_columns
from rl.management.options import CommandOptions, option
from rl.models import Agent, LabelModel

NOTHING_LEFT = {
    LabelModel.Reads.ANSWER: "Nothing to propose: every trace with an answer is labelled.",
    LabelModel.Reads.FOLLOW_UP: "Nothing to read: no next message is left behind an answer that nobody rated.",
}
GOES_ON = "Nobody said anything since this was learned, so it goes on where it stopped."

ABOUT = ("id", "reads", "labels", "heldout_labels", "heldout_accuracy", "accuracy_low", "majority_share", "calibration")


class Options(CommandOptions):
    agent: str | None = option(help="whose traces; default: the only one with ratings")
    follow_ups: bool = option(action="store_true", help="read what users wrote next instead of the answers themselves")
    learn_only: bool = option(action="store_true", help="learn and measure, propose nothing")
    limit: int | None = option(help="propose for this many traces, the newest first")
    threshold: float | None = option(help="train on proposals from this confidence on, 0.5 to 1; kept for the agent")
    dry_run: bool = option(action="store_true", help="learn, measure and judge, and keep nothing of it")


class Command(RatchetCommand):
    help = "Learn from people's labels, measure it, and propose labels for the traces that nobody has labelled."

    def run(self, options: Options) -> None:
        agent = choose_agent(options.agent, RATINGS, self.report)
        if options.limit is not None and options.limit < 1:
            raise UsageError("--limit must be 1 or more")
        if options.threshold is not None:
            if not 0.5 <= options.threshold <= 1:
                raise UsageError(f"--threshold must be from 0.5 to 1, not {options.threshold:g}")
            agent.auto_label_threshold = options.threshold
        if options.follow_ups and options.threshold is not None:
            raise UsageError(
                "--threshold is for proposals; what users wrote next counts by how far people agreed with it"
            )
        reads = LabelModel.Reads.FOLLOW_UP if options.follow_ups else LabelModel.Reads.ANSWER
        learn, propose = _STEPS[reads]
        known = auto_labels.go_on(agent, self.report, reads)
        learned = known or learn(agent, dry_run=options.dry_run, report=self.report)
        model = learned.model
        document: dict[str, Any] = {
            "agent": agent.name,
            "threshold": agent.auto_label_threshold,
            "model": {name: getattr(model, name) for name in ABOUT},
            "preferences": learned.preferences.as_dict() if learned.preferences else None,
        }
        figures = {
            "labels learned from": model.labels,
            "held-out labels": model.heldout_labels,
            "right on the held-out labels": f"{model.heldout_accuracy:.0%}",
            "always the commoner label": f"{model.majority_share:.0%}",
            **_of_preferences(learned.preferences),
        }
        if options.follow_ups:
            document["reviews"] = read_reviews(agent)._asdict() | {"weight": read_reviews(agent).weight}
            figures = _of_follow_ups(model)
        tables = [two_columns(f"{agent}: learned from people's labels", figures), _calibration_table(model)]
        lines = [*([GOES_ON] if known else []), _weight(agent) if options.follow_ups else _use(agent)]
        if not options.learn_only:
            proposals = propose(learned, limit=options.limit, dry_run=options.dry_run, report=self.report)
            document["proposed"] = proposals.as_dict()
            if proposals.at_least:
                tables.append(_proposals_table(proposals))
            else:
                lines.insert(0, NOTHING_LEFT[reads])
        if options.threshold is not None and not options.dry_run:
            agent.save(update_fields=["auto_label_threshold"])
        self.result(document, *tables, lines=lines)


_STEPS = {
    LabelModel.Reads.ANSWER: (auto_labels.learn, auto_labels.propose),
    LabelModel.Reads.FOLLOW_UP: (auto_labels.learn_to_hear, auto_labels.hear),
}


def _of_follow_ups(model: LabelModel) -> dict[str, Any]:
    low = model.accuracy_low or 0.0
    return {
        "rated answers with a next message": model.labels,
        "told good from bad, cross-fitted": f"{model.heldout_accuracy:.0%}, surely {low:.0%} (a coin: 50%)",
    }


def _of_preferences(preferences: Preferences | None) -> dict[str, Any]:
    if preferences is None or not preferences.learned + preferences.held_out:
        return {}
    figures = {"picks and edits learned from": preferences.learned, "held-out picks and edits": preferences.held_out}
    if not preferences.held_out:
        return figures
    return {**figures, "right on the held-out picks and edits": f"{preferences.right / preferences.held_out:.0%}"}


def _calibration_table(model: LabelModel) -> Table:
    table = Table("confidence", "held-out labels", "right", title="How far to trust it", title_justify="left")
    for step in model.calibration:
        table.add_row(f"{step['from']:.1f} to {step['to']:.1f}", str(step["count"]), f"{step['accuracy']:.0%}")
    return table


def _proposals_table(proposals: auto_labels.Proposed) -> Table:
    title = f"Proposed: {proposals.good:,} good, {proposals.bad:,} bad"
    table = Table("confidence", "proposals", title=title, title_justify="left")
    for step, count in sorted(proposals.at_least.items()):
        table.add_row(f"{step:g} or more", f"{count:,}")
    return table


def _weight(agent: Agent) -> str:
    reviews = read_reviews(agent)
    seen = f"People have looked at {reviews.seen} and agreed with {reviews.agreed}"
    if reviews.weight:
        return f"{seen}: an answer weighs up to {reviews.weight:g} of one that a person rated."
    return (
        f"{seen}; nothing is learned from them before {LEAST_SEEN} were looked at, and agreement is surely over one half: "
        f"/traces/?agent={agent.name}&label=follow_up lists them."
    )


def _use(agent: Agent) -> str:
    if agent.auto_label_threshold is None:
        return (
            "Proposals are not trained on. Choose a confidence with --threshold, or on the agent's page in the admin."
        )
    return f"Proposals from a confidence of {agent.auto_label_threshold:g} on are trained on."
