"""Make, list, close; invite, revoke."""

import json
from typing import Any
from urllib.parse import urljoin

from django.conf import settings
from django.urls import reverse
from rich.table import Table
from rich.text import Text

from rl.base.errors import UsageError
from rl.management.base import ActionsCommand
from rl.management.options import CommandOptions, argument, option, parts_of
from rl.models import Agent, Invite, RatingQueue
from rl.queues import editing


class NamedQueue(CommandOptions):
    agent: str = option(required=True)
    name: str = option(required=True, help="of the queue")


class CreateQueueOptions(NamedQueue):
    rubric: str = option(choices=RatingQueue.Rubric.values, default=RatingQueue.Rubric.THUMBS)
    filters: str = option(default="{}", help='which answers, as JSON: {"rated": false}; all if left out')
    tags: str = option(default="", help="offered beside the usual ones, with commas between")
    raters_per_item: int | None = option(help="everybody rates every item if left out")
    order: str = option(choices=RatingQueue.Order.values, default=RatingQueue.Order.NEWEST)
    instructions: str = option(default="", help="stand beside each item")


class InviteOptions(NamedQueue):
    guest: str = argument("--for", required=True, help="whom the link is for")
    days: int = option(default=editing.DAYS, help=f"how long it opens the queue; {editing.DAYS}")


class RevokeInvitationOptions(CommandOptions):
    id: int = argument(type=int, help="of the invitation, as 'rating_queue list' shows it")


class Command(ActionsCommand):
    help = "Make, list and close queues of the rating page, and invite people to them by link."
    actions = {
        "create": "make a queue",
        "list": "all queues with their invitations",
        "close": "hand out nothing more",
        "invite": "print a link with which somebody rates one queue",
        "revoke": "refuse an invitation from now on",
    }

    def _create(self, options: CreateQueueOptions) -> None:
        agent = Agent.by_name(options.agent)
        if editing.queue_of(agent, options.name) is not None:
            raise UsageError(f"{agent} has a queue {options.name} already")
        try:
            filters = json.loads(options.filters)
        except ValueError as error:
            raise UsageError(f"--filters is not JSON: {error}") from None
        given = vars(options) | {"agent": agent, "filters": filters, "tags": parts_of(options.tags)}
        queue = RatingQueue(**given)
        editing.save_queue(queue)
        self.result(_row(queue), lines=(f"Queue {queue.name} of {agent}: {_address(queue)}",))

    def _list(self) -> None:
        queues = list(RatingQueue.objects.select_related("agent").prefetch_related("invites"))
        table = Table() if queues else Table("no queues yet: they are made when somebody opens /rate/")
        for heading in ("queue", "asks", "invitations") if queues else ():
            table.add_column(heading, overflow="fold")
        for queue in queues:
            state = f"{queue.agent.name}/{queue.name}{' (closed)' if queue.closed_at else ''}"
            guests = "\n".join(
                f"{invite.pk} {invite.name}{' (over)' if editing.why_refused(invite) else ''}"
                for invite in queue.invites.all()
            )
            table.add_row(*map(Text, (state, queue.get_rubric_display(), guests)))
        self.result({"queues": [_row(queue) for queue in queues]}, table)

    def _close(self, options: NamedQueue) -> None:
        queue = _queue(options.agent, options.name)
        editing.close_queue(queue)
        self.result(_row(queue), lines=(f"Queue {queue.name} of {queue.agent} hands out nothing more.",))

    def _invite(self, options: InviteOptions) -> None:
        invite = editing.invite(_queue(options.agent, options.name), options.guest, options.days)
        link = urljoin(settings.SITE_URL, reverse("rate_by_invite", args=[editing.token_of(invite)]))
        note = f"Invitation {invite.pk} for {invite.name}, until {invite.expires_at:%Y-%m-%d}: whoever has it may rate."
        self.result({**_invite_row(invite), "link": link}, lines=(link, note))

    def _revoke(self, options: RevokeInvitationOptions) -> None:
        invite = Invite.objects.select_related("queue__agent").filter(pk=options.id).first()
        if invite is None:
            raise UsageError(f"no invitation {options.id}; see 'rating_queue list'")
        editing.revoke(invite)
        invite.refresh_from_db()
        self.result(_invite_row(invite), lines=(f"Invitation {invite.pk} ({invite.name}) opens nothing from now on.",))


def _queue(agent: str, name: str) -> RatingQueue:
    queue = editing.queue_of(Agent.by_name(agent), name)
    if queue is None:
        raise UsageError(f"{agent} has no queue {name}; see 'rating_queue list'")
    return queue


def _address(queue: RatingQueue) -> str:
    return urljoin(settings.SITE_URL, reverse("rate_queue", args=[queue.agent.name, queue.name]))


def _row(queue: RatingQueue) -> dict[str, Any]:
    shown = ("name", "rubric", "filters", "tags", "raters_per_item", "order", "closed_at")
    row = {name: getattr(queue, name) for name in shown}
    guests = [_invite_row(invite) for invite in queue.invites.all()]
    return {"agent": queue.agent.name, **row, "address": _address(queue), "invites": guests}


def _invite_row(invite: Invite) -> dict[str, Any]:
    return {name: getattr(invite, name) for name in ("id", "name", "rater", "expires_at", "revoked_at", "last_used_at")}
