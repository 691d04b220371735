"""What the queue does, to look at. A task or a schedule names a function that the queue imports and calls: nobody writes one
here, and none is sent again."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest
from django_q import admin as stock  # registers its own first
from django_q.models import Failure, OrmQ, Schedule, Success

from rl.admin.readonly import ReadOnlyAdmin


class QueueReadOnly(ReadOnlyAdmin):
    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        return {}


ADMINS: dict[type[Model], type[admin.ModelAdmin]] = {
    Schedule: stock.ScheduleAdmin,
    Success: stock.TaskAdmin,
    Failure: stock.FailAdmin,
    OrmQ: stock.QueueAdmin,
}
for _model, _admin in ADMINS.items():
    if admin.site.is_registered(_model):  # OrmQ is not where Redis is the broker
        admin.site.unregister(_model)
        admin.site.register(_model, type(_admin.__name__, (QueueReadOnly, _admin), {}))
