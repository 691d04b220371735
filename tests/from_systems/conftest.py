"""Callers of the API, as in the API's own tests."""

from __future__ import annotations

from tests.web.api.conftest import _nothing_counted_or_known_yet, other_agent, server, shop, version

__all__ = ["_nothing_counted_or_known_yet", "other_agent", "server", "shop", "version"]
