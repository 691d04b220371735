# The site, the queue and every command in one image; compose.yaml says what each container runs.
# The steps are those of docs/setup.md.
FROM python:3.12-slim-bookworm AS packages
# requirements.lock is enough for a container that only serves the site.
ARG REQUIREMENTS=requirements-rl.lock
WORKDIR /opt/ratchet
COPY requirements.lock requirements-rl.lock ./
RUN python3 -m venv .venv \
    && .venv/bin/pip install --no-cache-dir --require-hashes -r "$REQUIREMENTS"

FROM python:3.12-slim-bookworm
# Debian keeps one version of each, so none is pinned.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends bubblewrap libgomp1 libseccomp2 postgresql-client \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 10001 --user-group --home-dir /var/lib/ratchet ratchet \
    && install -d -o ratchet -g ratchet -m 0700 /var/lib/ratchet /var/backups/ratchet
WORKDIR /opt/ratchet
COPY --from=packages /opt/ratchet/.venv .venv
COPY . .
RUN DATA_DIR=/tmp/build SECRET_KEY=of-no-use-afterwards ALLOWED_HOSTS=localhost \
    .venv/bin/python manage.py collectstatic --noinput \
    && rm -rf /tmp/build
ENV DATA_DIR=/var/lib/ratchet BACKUP_DIR=/var/backups/ratchet PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
VOLUME ["/var/lib/ratchet", "/var/backups/ratchet"]
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
    CMD [".venv/bin/python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8000/healthz', timeout=4)"]
ENTRYPOINT [".venv/bin/python", "manage.py"]
CMD ["serve", "--host", "0.0.0.0", "--port", "8000", "--workers", "3"]
