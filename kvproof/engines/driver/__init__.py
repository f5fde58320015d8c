"""A block manager in any language, behind a command that speaks the protocol."""
