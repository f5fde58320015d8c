"""What a ledger raises."""

__all__ = ["Violation"]


class Violation(Exception):
    """A rule that the target broke: its code, and what was seen."""

    def __init__(self, rule: str, message: str) -> None:
        """Say which rule was broken and how it shows."""
        super().__init__(f"{rule}: {message}")
        self.rule = rule
        self.message = message
