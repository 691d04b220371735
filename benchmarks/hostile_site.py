"""An installation that is attacked: people, keys and an invitation, some of them the attackers' own."""

import json
from typing import Any

from crash_site import STREAMED, TRAINED, Site

PAGES = "http://localhost:3100"
"""Origin of Command Center's pages, which need no key."""
SHOP = "https://shop.example"
PEOPLE = {"alice": "alice-rates-answers", "bob": "bob-runs-this-place", "mallory": "mallory-means-no-good"}
DATA = f"""
import json
from django.contrib.auth.models import Permission, User
from rl.models import Agent, ApiKey, RatingQueue
from rl.queues import editing
agent = Agent.objects.get(name="{TRAINED}")
may = {{name: Permission.objects.get(codename=name) for name in ("add_feedback", "view_trace")}}
for name, password in {PEOPLE!r}.items():
    make = User.objects.create_superuser if name == "bob" else User.objects.create_user
    user = make(name, password=password)
    user.user_permissions.set(may.values() if name == "mallory" else [may["add_feedback"]])
queue = RatingQueue.objects.create(agent=agent, name="experts", raters_per_item=3, order="newest")
open_to = {{"kind": "publishable", "agent": agent, "allowed_origins": ["{SHOP}"]}}
print(json.dumps({{
    "app": ApiKey.create(name="app", kind="secret", agent=agent, scopes=["ingest", "read"])[1],
    "asker": ApiKey.create(name="asker", kind="secret", scopes=["ingest", "read"])[1],
    "leaked": ApiKey.create(name="leaked", kind="secret", scopes=["ingest", "read"])[1],
    "shop": ApiKey.create(name="shop", **open_to)[1],
    "tokens": ApiKey.create(name="tokens", needs_tokens=True, **open_to)[1],
    **{{name: editing.token_of(editing.invite(queue, name)) for name in ("dora", "guest")}},
}}))
"""


class HostileSite(Site):
    """Limits are those of an installation that nobody tuned."""

    secrets: dict[str, Any]

    @property
    def environment(self) -> dict[str, str]:
        return {**super().environment, "COMMAND_CENTER_ORIGINS": f"{PAGES}={TRAINED}", "API_REQUESTS_PER_MINUTE": "600"}

    def prepare(self) -> None:
        super().prepare()
        self.secrets = json.loads(self.manage("shell", "--no-imports", "-c", DATA).splitlines()[-1])

    @property
    def models(self) -> list[str]:
        """Agents that answer."""
        return [STREAMED, *([TRAINED] if self.trains else [])]
