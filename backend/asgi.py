"""The gateway and the site in one server (rl/web/front/)."""

import gc
import os
import sys

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "backend.settings")
_django = get_wsgi_application()

from rl.web.front.application import Front  # noqa: E402  models need Django's set-up

application = Front(_django)
gc.freeze()  # what is loaded stays, and is not looked through again and again while a long list comes in
# A statement of a transaction, for whose end others wait, waits this long for each thread that computes.
sys.setswitchinterval(0.002)
