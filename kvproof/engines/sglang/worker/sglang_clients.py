"""Who asks a scheduler for something."""

__all__ = ["Client", "Conversation"]


class Client:
    """Who has sent a request."""

    def __init__(self, r: str, prompt: list[int], names: tuple, conversation: "Conversation | None" = None) -> None:
        self.r, self.prompt, self.names, self.conversation = r, prompt, names, conversation
        self.req = None
        """The release's object, once there is one."""
        self.told = 0
        """So many tokens of its output were told."""
        self.most = 1
        """So many tokens it may get at most."""
        self.ended = False

    @property
    def holds(self) -> bool:
        """Whether it has a row of slots."""
        return self.req is not None and self.req.kv.holds_kv


class Conversation:
    """Whose turns go on where the last one ended."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.context: list[int] = []
        """What was said so far; a turn that was aborted was not."""
        self.turn: Client | None = None
        self.last = ""
        """The request of the last turn."""
        self.closed = False
