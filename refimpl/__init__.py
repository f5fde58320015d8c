"""The reference implementation of the block manager, written as an engine would be, without the specification.

By subject, as the specification is: ``pool``, ``tiers``, ``offload``, ``timed`` and ``hybrid``; each says what it
holds. For all of them, ``payload`` is what the blocks hold, ``attention`` reads it, ``events`` tells of changes.
"""
