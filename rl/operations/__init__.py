"""What an operator does: backups, a look at the installation, retention.

Imports: base, environments, models; Django.
"""

from __future__ import annotations
