"""Asynchronous offload.

``manager`` is the scheduler's side, which moves no bytes, and ``records`` what it keeps; it talks to ``worker`` by the
messages of ``transfers``, and ``flow`` runs both.
"""
