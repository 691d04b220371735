"""Callers of the API, as in the API's own tests."""

from tests.web.api.conftest import other_agent, server, shop, version

__all__ = ["other_agent", "server", "shop", "version"]
