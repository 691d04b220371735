"""Django settings. Everything that differs between two installations is an environment variable listed in .env.example."""

import hmac
import logging.config
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

import environ
from django.core.exceptions import ImproperlyConfigured

from backend import data_folder
from backend.environment import (
    address,
    addresses,
    boolean,
    hours,
    integer,
    one_of,
    origins,
    pairs,
    secret,
    secrets,
    text,
    texts,
    user_cache,
    variables,
)
from backend.version import read_version

BASE_DIR = Path(__file__).resolve().parent.parent
ENV_PATH = Path(text("ENV_FILE", str(BASE_DIR / ".env")))
if text("ENV_FILE") and not ENV_PATH.exists():
    raise ImproperlyConfigured(f"ENV_FILE={ENV_PATH} does not exist")
environ.Env.read_env(str(ENV_PATH))  # real environment variables win over the file

VERSION = read_version()

# --- what must be set in production -----------------------------------------------------------------------------------
DEBUG = boolean("DEBUG", False)
SECRET_KEY = secret("SECRET_KEY")
SECRET_KEY_FALLBACKS = secrets("SECRET_KEY_FALLBACKS")
ALLOWED_HOSTS = texts("ALLOWED_HOSTS", ["127.0.0.1", "localhost"] if DEBUG else [])
if not SECRET_KEY:
    raise ImproperlyConfigured("SECRET_KEY is not set: run 'python3 manage.py quickstart', or see .env.example")
if not ALLOWED_HOSTS:
    raise ImproperlyConfigured("ALLOWED_HOSTS is not set: with DEBUG=0 name the hosts this site answers to")
# What our llama.cpp servers ask for. Derived, so that a training can start one without knowing SECRET_KEY.
SERVING_KEY = secret("SERVING_KEY") or hmac.new(SECRET_KEY.encode(), b"rl.serving", "sha256").hexdigest()

# --- files ------------------------------------------------------------------------------------------------------------
DATA_DIR = Path(text("DATA_DIR", str(BASE_DIR / "data"))).resolve()
try:
    data_folder.prepare(DATA_DIR, is_ours=DATA_DIR == BASE_DIR / "data")
except OSError as error:
    raise ImproperlyConfigured(f"DATA_DIR={DATA_DIR} cannot be made: {error.strerror}") from None
BACKUP_DIR = Path(text("BACKUP_DIR", str(DATA_DIR / "backups"))).resolve()
if BACKUP_DIR.is_relative_to(DATA_DIR) and BACKUP_DIR.parent != DATA_DIR:
    raise ImproperlyConfigured(f"BACKUP_DIR={BACKUP_DIR} must be directly in DATA_DIR, or outside of it")

MIN_FREE_BYTES = integer("MIN_FREE_BYTES", 1_073_741_824, 0, 1_125_899_906_842_624)

# --- the site ---------------------------------------------------------------------------------------------------------
SITE_URL = address("SITE_URL", "http://127.0.0.1:8000")
FORCE_SCRIPT_NAME = urlsplit(SITE_URL).path  # empty, or /ratchet for https://example.org/ratchet
ROOT_URLCONF = "backend.urls"
INSTALLED_APPS = [
    "rl",
    "django.contrib.humanize",
    "whitenoise.runserver_nostatic",
    "backend.admin_config.RatchetAdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "axes",
    "corsheaders",
    "csp",
    "django_filters",
    "django_q",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "rest_framework",
]
MIDDLEWARE = [
    "rl.web.middleware.CallerMiddleware",
    "rl.web.middleware.answer_metrics",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "corsheaders.middleware.CorsMiddleware",
    "rl.web.api.quick_rating.answer_ratings",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "rl.web.languages.PageLanguageMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "axes.middleware.AxesMiddleware",
    "rl.web.sign_in.DeviceMiddleware",
    "rl.web.middleware.answer_in_readers_zone",
    "rl.web.middleware.FaultMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "builtins": ["django.templatetags.i18n"],
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "rl.web.middleware.version",
            ],
        },
    },
]
STATIC_URL = f"{FORCE_SCRIPT_NAME}/static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
STATIC_ROOT = BASE_DIR / "staticfiles"
# Plain names: the widget's address is written into other people's pages and must not change with its content.
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedStaticFilesStorage"},
}
WHITENOISE_USE_FINDERS = DEBUG
USE_I18N = True
LANGUAGE_CODE = "en"
LANGUAGES = [("en", "English"), ("de", "Deutsch"), ("es", "Español")]
LOCALE_PATHS = [BASE_DIR / "locale"]
LANGUAGE_COOKIE_AGE, LANGUAGE_COOKIE_SAMESITE = 31_536_000, "Lax"
USE_TZ = True
TIME_ZONE = "UTC"
DATA_UPLOAD_MAX_MEMORY_SIZE = integer("MAX_REQUEST_BYTES", 2_621_440, 1024, 1_073_741_824)
ANONYMOUS_REQUESTS_PER_MINUTE = integer("ANONYMOUS_REQUESTS_PER_MINUTE", 600, 1, 1_000_000)
SIGN_INS_PER_MINUTE = integer("SIGN_INS_PER_MINUTE", 20, 1, 1_000_000)
MAX_HELD_BYTES = integer("MAX_HELD_BYTES", 268_435_456, 1_048_576, 1_099_511_627_776)
MAX_CONNECTIONS = integer("MAX_CONNECTIONS", 1000, 1, 100_000)
MAX_CONNECTIONS_PER_ADDRESS = integer("MAX_CONNECTIONS_PER_ADDRESS", 200, 1, 100_000)
HEADER_TIMEOUT = integer("HEADER_TIMEOUT", 10, 1, 600)
REQUEST_TIMEOUT = integer("REQUEST_TIMEOUT", 120, 1, 3600)
REQUEST_MIN_RATE = integer("REQUEST_MIN_RATE", 1000, 1, 1_000_000)
MAX_OTLP_REQUEST_BYTES = integer("MAX_OTLP_REQUEST_BYTES", 16_777_216, 1024, 1_073_741_824)
MAX_FILE_BYTES = integer("MAX_FILE_BYTES", 536_870_912, 1024, 1_099_511_627_776)

# --- log-in -----------------------------------------------------------------------------------------------------------
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "home"
PASSWORD_HASHERS = ["backend.passwords.Argon2id", "django.contrib.auth.hashers.PBKDF2PasswordHasher"]
"""A password that was kept by the second is kept by the first from its next sign-in on."""
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
]
AUTHENTICATION_BACKENDS = ["axes.backends.AxesStandaloneBackend", "django.contrib.auth.backends.ModelBackend"]
# Five wrong passwords for one name from one address lock this pair for a quarter of an hour; for a name, and for an
# address, there are limits too. The right one is refused then too, and does not make the lock longer.
AXES_HANDLER = "rl.web.sign_in.SignInLimits"
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
AXES_FAILURE_LIMIT = 5
AXES_COOLOFF_TIME = timedelta(minutes=15)
AXES_RESET_ON_SUCCESS = True
AXES_RESET_COOL_OFF_ON_FAILURE_DURING_LOCKOUT = False
AXES_CLIENT_IP_CALLABLE = "rl.web.client_address.client_network"
AXES_USERNAME_CALLABLE = "rl.web.sign_in.name_tried"
AXES_LOCKOUT_CALLABLE = "rl.web.sign_in.locked_out"
AXES_DISABLE_ACCESS_LOG = True  # who signed in when, and from where, is nobody's business
AXES_ENABLE_ADMIN = False  # rl.admin.records shows the failures, without the forms that were sent
AXES_VERBOSE = False
AXES_SENSITIVE_PARAMETERS = ["username", "csrfmiddlewaretoken"]  # a password is easily typed into the wrong field

# --- security ---------------------------------------------------------------------------------------------------------
HTTPS = boolean("HTTPS", not DEBUG)
SESSION_ENGINE = "backend.sessions"
SECURE_SSL_REDIRECT = SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = LANGUAGE_COOKIE_SECURE = HTTPS
SESSION_COOKIE_PATH = CSRF_COOKIE_PATH = LANGUAGE_COOKIE_PATH = f"{FORCE_SCRIPT_NAME}/"
SECURE_HSTS_SECONDS = 31_536_000 if HTTPS else 0
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if boolean("BEHIND_PROXY", False) else None
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
CSRF_TRUSTED_ORIGINS = texts("CSRF_TRUSTED_ORIGINS")
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": ["'none'"],
        "script-src": ["'self'"],
        "style-src": ["'self'"],
        "img-src": ["'self'", "data:"],
        "font-src": ["'self'"],
        "connect-src": ["'self'"],
        "form-action": ["'self'"],
        "base-uri": ["'none'"],
        "frame-ancestors": ["'none'"],
    },
}

# --- database ---------------------------------------------------------------------------------------------------------
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
DATABASE_URL = secret("DATABASE_URL")
if not DATABASE_URL or DATABASE_URL.startswith("sqlite:"):
    path = DATABASE_URL.partition(":///")[2] or str(DATA_DIR / "db.sqlite3")
    DATABASES = {
        "default": {
            "ENGINE": "backend.sqlite3",
            "NAME": path,
            "CONN_MAX_AGE": 600,
            "OPTIONS": {
                # A rating answered with 2xx must survive a power cut (FULL), and read-then-write must queue, not fail
                # with "database is locked" (IMMEDIATE).
                "transaction_mode": "IMMEDIATE",
                "timeout": 20,
                "init_command": "PRAGMA journal_mode=WAL;PRAGMA synchronous=FULL;PRAGMA foreign_keys=ON;"
                "PRAGMA journal_size_limit=67108864;PRAGMA secure_delete=ON;",
            },
        },
    }
else:
    try:
        server = environ.Env.db_url_config(DATABASE_URL)
    except Exception as error:  # noqa: BLE001  whatever reading a wrong URL raises
        raise ImproperlyConfigured(f"DATABASE_URL cannot be read: {error}") from None
    if server.get("ENGINE") != "django.db.backends.postgresql":
        raise ImproperlyConfigured("DATABASE_URL must start with postgres:// or sqlite:///")
    pool = {"min_size": 2, "max_size": integer("DATABASE_POOL_SIZE", 8, 2, 100), "timeout": 10}
    DATABASES = {"default": {**server, "CONN_MAX_AGE": 0, "OPTIONS": {**server.get("OPTIONS", {}), "pool": pool}}}
DATABASE_IS_SHARED = boolean("DATABASE_IS_SHARED", default=False)

# --- queue ------------------------------------------------------------------------------------------------------------
# Tasks only look and start things; none trains. A lease must outlive a task and its wait in the worker's own queue,
# else it is delivered twice: retry > (queue_limit + workers + 1) * timeout.
REDIS_URL = secret("REDIS_URL")
if REDIS_URL and not REDIS_URL.startswith(("redis://", "rediss://", "unix://")):
    raise ImproperlyConfigured("REDIS_URL must start with redis://, rediss:// or unix://")
Q_CLUSTER = {
    "name": "ratchet",
    "workers": integer("QUEUE_WORKERS", 2, 1, 64),
    "queue_limit": 2,
    "bulk": 1,
    "timeout": 240,
    "retry": max(1500, (integer("QUEUE_WORKERS", 2, 1, 64) + 4) * 240),
    "max_attempts": 3,
    "ack_failures": True,
    "guard_cycle": 0.5,
    "poll": 1.0,
    "catch_up": False,
    "recycle": 100,
    "save_limit": 1000,
    **({"redis": REDIS_URL} if REDIS_URL else {"orm": "default"}),
}

# Counts the API's requests per minute. In the memory of one process each process counts for itself; Redis counts for all.
CACHES = {
    "default": {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": REDIS_URL}
    if REDIS_URL
    else {"BACKEND": "django.core.cache.backends.locmem.LocMemCache", "OPTIONS": {"MAX_ENTRIES": 100_000}}
}

# --- API --------------------------------------------------------------------------------------------------------------
REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["rl.web.api.auth.ApiKeyAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": ["rl.web.api.auth.MayCall"],
    "DEFAULT_PARSER_CLASSES": ["rl.web.api.parsers.StrictJSONParser"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PAGINATION_CLASS": "rl.web.api.pagination.NewestFirst",
    "DEFAULT_FILTER_BACKENDS": ["django_filters.rest_framework.DjangoFilterBackend"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "EXCEPTION_HANDLER": "rl.web.api.problems.problem_response",
    "UNAUTHENTICATED_USER": None,
    "NUM_PROXIES": integer("NUM_PROXIES", 0, 0, 10),
}
API_REQUESTS_PER_MINUTE = integer("API_REQUESTS_PER_MINUTE", 600, 1, 1_000_000)
TRACE_TOKEN_DAYS = integer("TRACE_TOKEN_DAYS", 30, 1, 3650)
OPEN_API_DOCS = boolean("OPEN_API_DOCS", False)
SPECTACULAR_SETTINGS = {
    "TITLE": "Ratchet API",
    "VERSION": VERSION,
    "OAS_VERSION": "3.1.1",
    "SERVE_INCLUDE_SCHEMA": False,
    "SERVERS": [{"url": FORCE_SCRIPT_NAME}] if FORCE_SCRIPT_NAME else [],
    "DESCRIPTION": (
        "First what every app needs: traces and feedback. Chats are answered by the gateway under `/v1`, which speaks "
        "the dialects of OpenAI's and Anthropic's clients: docs/gateway.md. The calls of other systems, each as that "
        "system makes them, stand last."
    ),
    "TAGS": [
        {"name": name}
        for name in ("traces", "feedback", "training", "versions", "agents", "ratings", "decisions", "policies")
    ],
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "ENUM_NAME_OVERRIDES": {"DecisionWord": "rl.from_systems.ocd.calls.base.WORDS"},  # fields of two names
}
CORS_URLS_REGEX = r"^/api/(v1/(feedback|ratings)|ratings|layer2/feedback)/"
CORS_ALLOW_HEADERS = ("authorization", "content-type", "x-feedback-key")
CORS_ALLOW_METHODS = ("GET", "POST", "OPTIONS")
COMMAND_CENTER_ORIGINS = origins("COMMAND_CENTER_ORIGINS")

# --- rewards ----------------------------------------------------------------------------------------------------------
CUSTOM_REWARDS = pairs("CUSTOM_REWARDS", texts("CUSTOM_REWARDS"))

# --- what trainers may choose by name ---------------------------------------------------------------------------------
BASE_MODELS = pairs("BASE_MODELS", texts("BASE_MODELS"))
DEFAULT_BASE_MODEL = text("DEFAULT_BASE_MODEL", "smollm2")
MODEL_CACHE = Path(
    text("MODEL_CACHE") or (user_cache() if DATA_DIR == BASE_DIR / "data" else DATA_DIR / "model_cache")
).resolve()
INFERENCE_SERVERS = addresses("INFERENCE_SERVERS")
ENVIRONMENTS_DIR = Path(text("ENVIRONMENTS_DIR") or DATA_DIR / "environments").resolve()
PROMPT_TEMPLATES_DIR = Path(text("PROMPT_TEMPLATES_DIR") or DATA_DIR / "prompt_templates").resolve()

# --- training ---------------------------------------------------------------------------------------------------------
ENABLE_ONLINE_LEARNING = boolean("ENABLE_ONLINE_LEARNING", False)
RUN_MAX_ATTEMPTS = integer("RUN_MAX_ATTEMPTS", 3, 1, 20)
RUN_HEARTBEAT_TIMEOUT = integer("RUN_HEARTBEAT_TIMEOUT", 900, 30, 86_400)
EVALUATION_PROMPTS = integer("EVALUATION_PROMPTS", 100, 16, 10_000)
TRAINING_EXECUTOR = one_of("TRAINING_EXECUTOR", ("local", "ray"))
RAY_ADDRESS = address("RAY_ADDRESS", "http://127.0.0.1:8265")
RAY_JOB_GPUS = integer("RAY_JOB_GPUS", 0, 0, 64)
TRAINING_ENVIRONMENT = variables("TRAINING_ENVIRONMENT")
JUDGES_FILE = text("JUDGES_FILE")
SOURCES_FILE = text("SOURCES_FILE")
LLAMA_CPP_DIR = text("LLAMA_CPP_DIR")
LM_EVAL_PYTHON = text("LM_EVAL_PYTHON")

# --- serving ----------------------------------------------------------------------------------------------------------
OLLAMA_URL = address("OLLAMA_URL", "http://127.0.0.1:11434")
EMBEDDING_MODELS = addresses("EMBEDDING_MODELS")
GATEWAY_TIMEOUT = integer("GATEWAY_TIMEOUT", 600, 1, 86_400)
TRAINING_HOURS = hours("TRAINING_HOURS")
PAUSE_TRAINING_SECONDS = integer("PAUSE_TRAINING_SECONDS", 5, 0, 3600)
UNLOAD_WHILE_TRAINING = boolean("UNLOAD_WHILE_TRAINING", False)

# --- retention: days, 0 for ever -----------------------------------------------------------------------------------------
KEEP_TRACES_DAYS = integer("KEEP_TRACES_DAYS", 0, 0, 36_500)
KEEP_LOGS_DAYS = integer("KEEP_LOGS_DAYS", 0, 0, 36_500)
KEEP_CHECKPOINTS_DAYS = integer("KEEP_CHECKPOINTS_DAYS", 0, 0, 36_500)
KEEP_WEBHOOK_DELIVERIES_DAYS = integer("KEEP_WEBHOOK_DELIVERIES_DAYS", 0, 0, 36_500)
KEEP_AUDIT_EVENTS_DAYS = integer("KEEP_AUDIT_EVENTS_DAYS", 0, 0, 36_500)

# --- webhooks ---------------------------------------------------------------------------------------------------------
WEBHOOKS_FILE = text("WEBHOOKS_FILE")

# --- logging ----------------------------------------------------------------------------------------------------------
LOG_LEVEL = text("LOG_LEVEL", "INFO").upper()  # logging names the level that it does not know
LOG_FORMAT = one_of("LOG_FORMAT", ("text", "json"))
METRICS_TOKEN = secret("METRICS_TOKEN")
LOGGING_CONFIG = None
logging.config.dictConfig(
    {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "text": {"format": "%(asctime)s %(levelname)s %(name)s: %(message)s"},
            "json": {"()": "rl.base.logs.JsonLines"},
        },
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": LOG_FORMAT}},
        "root": {"handlers": ["stderr"], "level": LOG_LEVEL},
        "loggers": {
            "django.request": {"level": "ERROR"},
            "gguf": {"level": "WARNING"},
            "axes": {"level": "WARNING"},
            "django-q": {"level": "WARNING"},  # it tells of every task, twenty a minute
            "httpx": {"level": "WARNING"},
        },
    }
)
logging.captureWarnings(LOG_FORMAT == "json")
