"""List, try, send again."""

import uuid

from django.db.models import Count
from rich.table import Table

from rl.base.errors import RatchetError, UsageError
from rl.management.base import ActionsCommand
from rl.management.options import CommandOptions, argument
from rl.models import WebhookDelivery
from rl.operations.webhooks import delivering, events
from rl.operations.webhooks.endpoints import endpoints


class TestOptions(CommandOptions):
    name: str = argument(help="of the endpoint")


class ResendOptions(CommandOptions):
    message: str = argument(help="its id, as in the webhook-id header or in the admin")


class Command(ActionsCommand):
    help = "Show the webhooks of WEBHOOKS_FILE, try one, send a message again, or make a secret."
    actions = {
        "list": "the endpoints, and how many messages wait, arrived, or were given up",
        "test": "send one message of the type webhook.test now",
        "resend": "send a message again with the queue's next round",
        "secret": "print a new secret",
    }

    def _list(self) -> None:
        counts = WebhookDelivery.objects.order_by().values_list("endpoint", "state").annotate(n=Count("pk"))
        by_state = {(name, state): number for name, state, number in counts}
        states = [state.value for state in WebhookDelivery.State]
        table = Table("name", "url", "events", *[state.replace("_", " ") for state in states])
        entries = []
        for name, endpoint in endpoints().items():
            numbers = [by_state.get((name, state), 0) for state in states]
            table.add_row(name, endpoint.url, "\n".join(endpoint.events), *map(str, numbers))
            entries.append({"name": name, "url": endpoint.url, **dict(zip(states, numbers, strict=True))})
        self.result({"webhooks": entries}, table)

    def _test(self, options: TestOptions) -> None:
        name, known = options.name, endpoints()
        if name not in known:
            named = ", ".join(known) or "none yet"
            raise UsageError(f"WEBHOOKS_FILE names no endpoint {name!r}; it names: {named}")
        payload = events.message("webhook.test", "", {})
        answer = delivering.send(known[name], f"msg_{uuid.uuid4().hex}", payload)
        if not answer.is_success:
            raise RatchetError(f"{name} did not take it: {answer.error}")
        self.result({"status": answer.status}, lines=[f"{name} took it: status {answer.status}"])

    def _resend(self, options: ResendOptions) -> None:
        try:
            number = uuid.UUID(options.message.removeprefix("msg_"))
            delivery = WebhookDelivery.objects.get(message_id=number)
        except (ValueError, WebhookDelivery.DoesNotExist):
            raise UsageError(f"there is no message {options.message!r}; the admin lists them") from None
        delivering.send_again(delivery)
        self.result({"message": str(number)}, lines=[f"the queue sends it to {delivery.endpoint} again"])

    def _secret(self) -> None:
        secret = delivering.new_secret()
        self.result({"secret": secret}, lines=[secret])
