"""``python -m kvproof``: the command line."""

from .cli.main import main

main()
