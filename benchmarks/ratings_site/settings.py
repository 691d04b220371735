"""The server of ``manage.py serve`` around one view without middleware: what an INSERT through Django costs at least."""

from backend.settings import *  # noqa: F403

ROOT_URLCONF = "benchmarks.ratings_site.urls"
MIDDLEWARE: list[str] = []
SILENCED_SYSTEM_CHECKS = ["admin.E408", "admin.E409", "admin.E410", "axes.W002"]  # the admin is not served
