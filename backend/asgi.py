"""The gateway and the site in one server (rl/web/front/)."""

from __future__ import annotations

import gc
import os
import sys

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "backend.settings")
_django = get_wsgi_application()

from rl.web.front.application import Front  # noqa: E402  models need Django's set-up

application = Front(_django)
gc.freeze()  # what is loaded stays, and is not looked through again and again while a long list comes in
# Each statement of a transaction, in which others wait to write, lets other threads go on, and waits this long for each that
# computes until it goes on itself: with Python's 5 ms, transactions of 5 ms took 33.
sys.setswitchinterval(0.002)
