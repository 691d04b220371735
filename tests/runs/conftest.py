from __future__ import annotations

from tests.export.conftest import tiny_adapter, tiny_model

__all__ = ["tiny_adapter", "tiny_model"]
