"""What every command writes for programs with ``--json FILE``, key by key.

Within one version of the schema a key is never removed, and never comes to mean anything else; a key may be added, so
readers pass over those that they do not know. Times are in seconds, sizes in bytes, rates in bytes per second. A number
that is not finite is null.
"""

from typing import Any, Final

import msgspec

from ...version import kit_version

__all__ = ["SCHEMA", "Report", "plain"]

SCHEMA: Final = 1
"""The version of the schema."""


class Report(msgspec.Struct, frozen=True, kw_only=True, tag_field="command"):
    """What a command writes."""

    schema: int = SCHEMA
    """The version of this schema."""
    kit: str = msgspec.field(default_factory=kit_version)
    """The version of kvproof that wrote it."""


def plain(report: Report) -> dict[str, Any]:
    """A report as plain data, under the keys that programs see."""
    data: dict[str, Any] = msgspec.to_builtins(report)
    return data
