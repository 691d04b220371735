"""Django's sessions in the database: what has not changed since it was stored is not stored again (SESSION_ENGINE)."""

from typing import Any

from django.contrib.sessions.backends import db


class SessionStore(db.SessionStore):
    _stored: tuple[str | None, Any] | None = None
    """The key and what was stored under it, by this object."""

    def save(self, must_create: bool = False) -> None:
        data = self.serializer().dumps(self._get_session(no_load=must_create))  # type: ignore[attr-defined]
        if must_create or self._stored != (self.session_key, data):
            super().save(must_create)
            self._stored = self.session_key, data
