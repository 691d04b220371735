"""Records what Django's signals report, whichever page or command they come from: sign-ins, passwords, forms of the admin,
and rows that are created or deleted."""

from typing import Any, Final

from axes.signals import user_locked_out
from django.contrib.admin.models import DELETION, LogEntry
from django.contrib.auth.models import Group, User
from django.contrib.auth.signals import user_logged_in, user_logged_out
from django.db.models import Model
from django.db.models.signals import post_save, pre_delete
from django.http import HttpRequest

from rl import models
from rl.operations.audit import Action, record

WATCHED: Final = (
    models.Agent,
    models.ApiKey,
    models.Artifact,
    models.Evaluation,
    models.Experiment,
    models.LabelModel,
    models.ModelVersion,
    models.TrainingRun,
    models.TrainingSet,
    User,
    Group,
)
"""Models whose deletion is an event of its own. Rows that come by the thousand (traces, ratings, points of a curve) are
deleted with one of these, or by the retention, which says how many it deleted."""


def connect() -> None:
    user_logged_in.connect(_record_sign_in)
    user_logged_out.connect(_record_sign_out)
    user_locked_out.connect(_record_lockout)
    post_save.connect(_record_user, sender=User)
    post_save.connect(_record_key, sender=models.ApiKey)
    post_save.connect(_record_form, sender=LogEntry)
    for model in WATCHED:
        pre_delete.connect(_record_deletion, sender=model)


def _record_sign_in(user: User, **kwargs: Any) -> None:
    record(Action.SIGNED_IN, user)


def _record_sign_out(user: User | None, **kwargs: Any) -> None:
    if user is not None:  # the session may have ended before
        record(Action.SIGNED_OUT, user)


def _record_lockout(request: HttpRequest, username: str, ip_address: str | None, **kwargs: Any) -> None:
    """Once for each lock, not for each try while it holds. What is not a user's name may be a password, and is not kept."""
    if getattr(request, "axes_failures_since_start", None) is None:
        return
    user = User.objects.filter(username=username).first()
    record(Action.LOCKED_OUT, user or "", network=ip_address)


def _record_user(instance: User, created: bool, raw: bool = False, **kwargs: Any) -> None:
    if raw:  # a fixture is loaded
        return
    if created:
        record(Action.CHANGED, instance, changes="Added.")
    elif getattr(instance, "_password", None) is not None:  # set until save() ends; not by a mere stronger hash
        record(Action.PASSWORD_CHANGED, instance)


def _record_key(instance: models.ApiKey, created: bool, raw: bool = False, **kwargs: Any) -> None:
    if created and not raw:
        record(Action.KEY_MADE, instance, key=instance.pk, kind=instance.kind, scopes=instance.scopes)


def _record_form(instance: LogEntry, created: bool, **kwargs: Any) -> None:
    """A form of the admin. Its buttons write sentences of their own into Django's log, and their deeds are events."""
    model = instance.content_type.model_class() if instance.content_type else None
    has_event = instance.is_addition() and model in (models.ApiKey, User)
    is_form = instance.change_message.startswith("[")
    if not created or not is_form or instance.action_flag == DELETION or has_event:
        return
    kind = instance.content_type.name if instance.content_type else "record"
    target = instance.get_edited_object()
    agent = target if isinstance(target, models.Agent) else getattr(target, "agent", None)
    record(Action.CHANGED, f"{kind} {instance.object_repr}", agent=agent, changes=instance.get_change_message())


def _record_deletion(instance: Model, **kwargs: Any) -> None:
    """Before it is gone, while what it belongs to can still be named."""
    record(Action.DELETED, instance, id=str(instance.pk))
