"""What a ledger raises, and how it is shown."""

from rich.text import Text

from ..output import Output
from ..untrusted.text import one_line

__all__ = ["Violation", "show_violation"]


class Violation(Exception):
    """A rule that the target broke: its name in SEMANTICS.md, and what was seen."""

    def __init__(self, rule: str, message: str) -> None:
        """Say which rule was broken and how it shows."""
        super().__init__(f"{rule}: {message}")
        self.rule = rule
        self.message = message


def show_violation(output: Output, rule: str, message: str, where: str, again: str) -> None:
    """Show a rule that was broken, what was seen and where, and the command that shows it again."""
    text = Text.assemble((rule, "bold red"), f" at {where}: {one_line(message)}")
    output.notes.print(text)
    output.notes.print(one_line(f"  again: {again}"), highlight=False, soft_wrap=True)
