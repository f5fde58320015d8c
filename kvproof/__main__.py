"""``python -m kvproof``: the command line."""

from .cli import main

main()
