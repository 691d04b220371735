"""Admin and the site."""

from django.contrib import admin
from django.urls import include, path

from rl.web.sign_in import change_password

admin.autodiscover()
handler400 = "rl.web.middleware.answer_bad_request"
handler500 = "rl.web.middleware.answer_error"
urlpatterns = [
    path("admin/password_change/", change_password),  # in the place of the admin's own
    path("admin/", admin.site.urls),
    path("", include("rl.from_systems.command_center.urls")),
    path("", include("rl.from_systems.langfuse.urls")),
    path("", include("rl.from_systems.n3.urls")),
    path("", include("rl.from_systems.ocd.urls")),
    path("", include("rl.from_systems.openai_tuning.urls")),
    path("", include("rl.from_systems.sources.urls")),
    path("", include("rl.web.urls")),
]
