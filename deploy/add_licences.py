"""Adds licences to a bill of materials (CycloneDX as JSON, stdin to stdout), as the installed packages declare them.

A property ``ratchet:licence`` says why a package has none, or which other version declares it. What is printed is valid.
"""

import json
import re
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, distributions
from typing import Any, Final

from cyclonedx.schema import SchemaVersion
from cyclonedx.spdx import fixup_id, is_expression
from cyclonedx.validation.json import JsonStrictValidator

_SPOKEN: Final = {
    "apache 2 0": "Apache-2.0",
    "bsd 3 clause": "BSD-3-Clause",
    "3 clause bsd": "BSD-3-Clause",
    "isc iscl": "ISC",
    "mozilla public 2 0 mpl 2 0": "MPL-2.0",
    "psfl": "PSF-2.0",
    "python software foundation": "PSF-2.0",
}
"""What people write, without the words that say nothing. BSD alone, and Apache without a version, are names of several."""
_EMPTY_WORDS: Final = re.compile(r"\b(the|licen[cs]e|version)\b|[^a-z0-9]+")
_LONGEST: Final = 80
"""Characters of a name; whoever put a whole licence there began it with its name, or with a heading."""


def main() -> None:
    document = json.load(sys.stdin)
    here = {_normal(row.name): row for row in distributions()}
    for component in document["components"]:
        _describe(component, here.get(_normal(component["name"])))
    text = json.dumps(document, indent=2)
    if error := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text):
        raise SystemExit(f"deploy/sbom: {error}")
    without = [row["name"] for row in document["components"] if "licenses" not in row]
    sys.stdout.write(f"{text}\n")
    sys.stderr.write(f"{len(without)} of {len(document['components'])} have no licence here: {', '.join(without)}\n")


def _describe(component: dict[str, Any], package: Distribution | None) -> None:
    if package is None:
        note = "not known: the package is not installed where this list was made"
    elif declared := _declared(package):
        component["licenses"] = declared
        other = package.version.partition("+")[0]
        note = "" if other == component.get("version") else f"as version {other} declares it"
    else:
        note = "the package declares none"
    if note:
        component["properties"] = [*component.get("properties", []), {"name": "ratchet:licence", "value": note}]


def _declared(package: Distribution) -> list[dict[str, Any]]:
    """All ids that are declared, and names of what has none; or one expression."""
    spoken = list(_spoken(package))
    for text in spoken:
        if fixup_id(text) is None and is_expression(text):
            return [{"expression": text, "acknowledgement": "declared"}]
    ids = {text: fixup_id(text) or _SPOKEN.get(_bare(text)) or fixup_id(_bare(text)) for text in spoken}
    known = sorted({spdx for spdx in ids.values() if spdx})
    families = {spdx.partition("-")[0].lower() for spdx in known}
    names = {
        text[:_LONGEST] for text, spdx in ids.items() if not spdx and _bare(text).partition(" ")[0] not in families
    }
    chosen = [{"id": spdx} for spdx in known] + [{"name": name} for name in sorted(names)]
    return [{"license": {**each, "acknowledgement": "declared"}} for each in chosen]


def _spoken(package: Distribution) -> Iterator[str]:
    metadata = package.metadata
    if expression := metadata.get("License-Expression"):
        yield expression
        return
    classes = [each.split(" :: ") for each in metadata.get_all("Classifier", []) if each.startswith("License :: ")]
    yield from (parts[-1] for parts in classes if len(parts) > 2)
    first = str(metadata.get("License") or "").strip().partition("\n")[0].strip()
    if first and first != "UNKNOWN" and (_is_known(first) or not classes):
        yield first


def _is_known(text: str) -> bool:
    return bool(fixup_id(text) or fixup_id(_bare(text)) or _bare(text) in _SPOKEN or is_expression(text))


def _bare(text: str) -> str:
    return " ".join(_EMPTY_WORDS.sub(" ", text.lower()).split())


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    main()
