from tests.export.conftest import tiny_adapter

__all__ = ["tiny_adapter"]
