"""The settings of the test suite: the real ones, on a database and a data directory of their own."""

import os
import sys
import tempfile
from pathlib import Path

# jsonschema imports it where it can, for seconds and for formats that nothing here asks for; it comes with a test tool.
sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]
# One directory for the whole run, and in it one for each process that tests run in at the same time.
_shared = Path(os.environ.setdefault("RATCHET_TEST_ROOT", tempfile.mkdtemp(prefix="ratchet-tests-")))
_root = _shared / os.environ.get("PYTEST_XDIST_WORKER", "")
_root.mkdir(exist_ok=True)
os.environ["ENV_FILE"] = os.devnull  # what a person has set for this checkout is no part of a test
os.environ["SECRET_KEY"] = "only-for-tests-" + "x" * 40
os.environ["DEBUG"] = "1"
os.environ["ALLOWED_HOSTS"] = "127.0.0.1,localhost,testserver"
os.environ["DATA_DIR"] = str(_root / "data")
os.environ["DEFAULT_BASE_MODEL"] = "tiny"
os.environ.setdefault("MODEL_CACHE", str(Path("~/.cache/ratchet").expanduser()))
os.environ["TRAINING_ENVIRONMENT"] = "RATCHET_TEST_ROOT,PYTEST_XDIST_WORKER"  # where these settings' files are
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")  # the tests compute on the CPU, which gives the same digits each time

from backend.settings import *  # noqa: E402, F403
from backend.settings import DATABASES  # noqa: E402

if str(DATABASES["default"]["ENGINE"]).endswith("sqlite3"):
    # A file, not memory: the tests start real child processes, and WAL exists for files only.
    DATABASES["default"]["NAME"] = str(_root / "site.sqlite3")
    DATABASES["default"]["TEST"] = {"NAME": str(_root / "test.sqlite3")}
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}
WHITENOISE_USE_FINDERS = False  # each client would look at all static files; the sites that browsers open do
STATIC_ROOT = _root / "static"
STATIC_ROOT.mkdir(exist_ok=True)
LOGGING_CONFIG = None
