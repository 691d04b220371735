"""What may be wrong with an installation: one function a question. Each yields what it sees, and changes nothing.

Imports: base, lm, models, operations, serving; Django.
"""

from __future__ import annotations
