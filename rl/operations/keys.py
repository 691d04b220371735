"""API keys are revoked."""

from django.db import transaction

from rl.models import ApiKey
from rl.operations import audit


def revoke(key: ApiKey) -> None:
    """The key is refused from now on; its row stays."""
    with transaction.atomic():
        key.revoke()
        audit.record(audit.Action.KEY_REVOKED, key, key=key.pk)
