"""What machine R speaks of."""

from ...machine import Index, Sort


class Page(Sort):
    """One unit of KV memory: as many slots as a page has tokens."""


class Slot(Sort):
    """The place of one token in a page."""


class Prefix(Sort):
    """A namespace, and a whole number of pages of tokens from the start of a sequence."""


class Request(Sort):
    """A sequence of tokens that is being served."""


class Position(Index):
    """The place of a page in a sequence, counted from 0."""
