"""QuestionStart, UserTurns: what lists show of prompts, taken out by the database, so that megabytes need not come over."""

from __future__ import annotations

from typing import Any

from django.db.models import Func, IntegerField, TextField

LENGTH = 200
"""Characters of a question that a list has."""


class _OfUser(Func):
    """``select`` and ``then`` are SQL around the user's messages, rows of ``number`` and ``content``."""

    select, then = "", ""

    def as_sqlite(self, compiler: Any, connection: Any, **more: Any) -> tuple[str, Any]:
        role, text = (
            f"CASE type WHEN 'object' THEN json_extract(value, '$.{name}') END" for name in ("role", "content")
        )
        rows = f"SELECT key AS number, {text} AS content FROM json_each(%(expressions)s) WHERE {role} = 'user'"  # noqa: S608  constants
        return self._select(rows, compiler, connection)

    def as_postgresql(self, compiler: Any, connection: Any, **more: Any) -> tuple[str, Any]:
        users = """jsonb_path_query(%(expressions)s, '$[*] ? (@.role == "user")')"""
        rows = f"SELECT number, m ->> 'content' AS content FROM {users} WITH ORDINALITY AS of_user(m, number)"  # noqa: S608
        return self._select(rows, compiler, connection)

    def _select(self, rows: str, compiler: Any, connection: Any) -> tuple[str, Any]:
        template = f"(SELECT {self.select} FROM ({rows}) AS messages {self.then})"  # noqa: S608
        return self.as_sql(compiler, connection, template=template)


class QuestionStart(_OfUser):
    """As ``Trace.question``, cut to LENGTH characters; NULL where there is none."""

    select, then = f"substr(content, 1, {LENGTH})", "ORDER BY number DESC LIMIT 1"
    output_field = TextField()


class UserTurns(_OfUser):
    """How many messages there are of the user."""

    select = "count(*)"
    output_field = IntegerField()
