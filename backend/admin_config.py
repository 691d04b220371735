"""Django's admin with the list of records in groups. Its pages are imported with the addresses of the site, or to be
checked: most commands need neither.
"""

from typing import Any

from django.contrib.admin import autodiscover
from django.contrib.admin.apps import SimpleAdminConfig
from django.contrib.admin.checks import check_admin_app, check_dependencies
from django.core import checks


class RatchetAdminConfig(SimpleAdminConfig):
    default = False
    default_site = "backend.admin_site.RatchetAdminSite"

    def ready(self) -> None:
        checks.register(check_dependencies, checks.Tags.admin)
        checks.register(check_pages, checks.Tags.admin)


def check_pages(app_configs: Any, **options: Any) -> list[checks.CheckMessage]:
    """Django's own check, of pages that are there."""
    autodiscover()
    return check_admin_app(app_configs, **options)
