"""Signatures of Standard Webhooks: https://www.standardwebhooks.com/. Receivers verify them with any of its libraries."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets


def signed_headers(key: bytes, message_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """``timestamp``: seconds since 1970, of this attempt: receivers refuse what is older than some minutes."""
    content = b".".join((message_id.encode(), str(timestamp).encode(), body))
    signature = base64.b64encode(hmac.digest(key, content, hashlib.sha256)).decode()
    return {"webhook-id": message_id, "webhook-timestamp": str(timestamp), "webhook-signature": f"v1,{signature}"}


def new_secret() -> str:
    return f"whsec_{base64.b64encode(secrets.token_bytes(32)).decode()}"
