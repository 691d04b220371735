"""ApiKey."""

from __future__ import annotations

import hashlib
import secrets
from typing import Any
from urllib.parse import urlsplit

from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import QuerySet
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from rl.base.names import unknown_name
from rl.models.agents import Agent
from rl.models.whole_rows import read_rows


def validate_origins(value: object) -> None:
    """A list of ``scheme://host[:port]``, as browsers send it in the Origin header."""
    if not isinstance(value, list) or not all(isinstance(origin, str) for origin in value):
        raise ValidationError("must be a JSON list of origins")
    for origin in value:
        parts = urlsplit(origin)
        if parts.scheme not in ("http", "https") or not parts.netloc or origin != f"{parts.scheme}://{parts.netloc}":
            raise ValidationError(f"{origin!r} is not an origin; write it like https://app.example.com, without a path")


def validate_scopes(value: object) -> None:
    known = ApiKey.Scope.values
    if (
        not isinstance(value, list)
        or not all(isinstance(scope, str) for scope in value)
        or len(set(value)) < len(value)
    ):
        raise ValidationError(f"must be a JSON list without repetitions, of {', '.join(known)}")
    if unknown := [scope for scope in value if scope not in known]:
        raise ValidationError(unknown_name("scope", unknown[0], known))


def usual_scopes() -> list[str]:
    """Scopes of a secret key for which no others are asked: it can neither train nor deploy."""
    return [ApiKey.Scope.INGEST.value, ApiKey.Scope.READ.value]


class ApiKey(models.Model):
    """Who may call the API. Only a hash of the key is kept: the key itself is shown once, when it is made."""

    class Kind(models.TextChoices):
        SECRET = "secret", _("secret (servers; may do what its scopes say)")
        PUBLISHABLE = "publishable", _("publishable (browsers; may rate, and ask one agent)")

    class Scope(models.TextChoices):
        """What a secret key may do. A publishable one may rate, and with ``chat`` ask its agent, and nothing else."""

        CHAT = "chat", "ask the gateway"
        INGEST = "ingest", "send traces and feedback, and ask the gateway"
        READ = "read", "read traces, feedback, versions and runs"
        TRAIN = "train", "start and cancel trainings"
        DEPLOY = "deploy", "promote, roll back and deploy versions"

    PREFIXES = {Kind.SECRET: "sk_", Kind.PUBLISHABLE: "pk_"}

    name = models.CharField(max_length=100)
    kind = models.CharField(max_length=16, choices=Kind)
    agent = models.ForeignKey(
        Agent, null=True, blank=True, on_delete=models.CASCADE, related_name="api_keys", help_text="Empty: every agent."
    )
    allowed_origins = models.JSONField(
        default=list,
        blank=True,
        validators=[validate_origins],
        help_text="Publishable keys work from these pages only.",
    )
    scopes = models.JSONField(
        default=usual_scopes, blank=True, validators=[validate_scopes], help_text="What the key may do."
    )
    needs_tokens = models.BooleanField(
        default=False, help_text="A publishable key rates only with a token that the server signed for the answer."
    )
    start = models.CharField(max_length=12, editable=False, help_text="The first characters, to tell keys apart.")
    digest = models.CharField(max_length=64, unique=True, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)
    last_used_at = models.DateTimeField(null=True, blank=True, editable=False)
    expires_at = models.DateTimeField(null=True, blank=True, help_text="Refused from then on. Empty: never.")
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name = "API key"
        ordering = ["-created_at"]

    def __str__(self) -> str:
        return f"{self.name} ({self.start}…)"

    def clean(self) -> None:
        if self.kind == self.Kind.PUBLISHABLE and not self.allowed_origins:
            raise ValidationError({"allowed_origins": "a publishable key needs at least one origin"})
        if self.kind == self.Kind.PUBLISHABLE and self.scopes and self.agent is None:
            raise ValidationError({"agent": "a publishable key asks one agent: say which"})
        if self.kind == self.Kind.SECRET and not self.scopes:
            raise ValidationError({"scopes": "a secret key needs at least one scope"})
        if self.kind == self.Kind.SECRET and self.needs_tokens:
            raise ValidationError({"needs_tokens": "is for publishable keys"})
        if self._state.adding and self.expires_at and self.expires_at <= timezone.now():
            raise ValidationError({"expires_at": "is in the past; the key could never be used"})

    def issue(self) -> str:
        """Makes a new random key for this unsaved row, saves it, and returns the key: the only time it is seen."""
        key = self.PREFIXES[self.Kind(self.kind)] + secrets.token_urlsafe(32)
        self.start, self.digest = key[:10], self.digest_of(key)
        if self.kind == self.Kind.PUBLISHABLE:
            self.scopes = [scope for scope in self.scopes if scope == self.Scope.CHAT]
        self.full_clean()
        self.save()
        return key

    @classmethod
    def create(cls, **fields: Any) -> tuple[ApiKey, str]:
        """Raises ValidationError."""
        row = cls(**fields)
        return row, row.issue()

    @staticmethod
    def digest_of(key: str) -> str:
        """Keys carry 256 random bits, so a plain SHA-256 cannot be guessed back."""
        return hashlib.sha256(key.encode()).hexdigest()

    @classmethod
    def valid(cls) -> QuerySet[ApiKey]:
        """Those that are neither revoked nor expired."""
        unexpired = models.Q(expires_at__isnull=True) | models.Q(expires_at__gt=timezone.now())
        return cls.objects.filter(unexpired, revoked_at__isnull=True)

    @classmethod
    def find(cls, key: str) -> ApiKey | None:
        """The key's row unless it is unknown, revoked or expired. Compares hashes through the unique index."""
        row = next(read_rows(cls, "digest = %s", [cls.digest_of(key)]), None)
        return None if row is None or row.revoked_at is not None or row.has_expired() else row

    def has_expired(self) -> bool:
        """Since it was read."""
        return self.expires_at is not None and self.expires_at <= timezone.now()

    def revoke(self) -> None:
        type(self).objects.filter(pk=self.pk, revoked_at__isnull=True).update(revoked_at=timezone.now())
