"""``kvproof schema``: what every command writes with ``--json``, key by key."""

from typing import Annotated

import typer

from ...errors import ExitStatus


def schema(
    markdown: Annotated[bool, typer.Option("--markdown", help="As a page for people: docs/json.md.")] = False,
) -> int:
    """Write what --json has, as a JSON Schema that programs can check reports with."""
    if markdown:
        from ..schema.page import page

        typer.echo(page(), nl=False)
        return ExitStatus.HOLDS
    import msgspec

    from ..schema.catalog import json_schema

    typer.echo(msgspec.json.format(msgspec.json.encode(json_schema())).decode())
    return ExitStatus.HOLDS
