"""Streams of KV-cache events, checked: what engines publish so that a router knows what each of them has cached.

Bytes become typed events (`decoding.py`), numbers are followed (`numbering.py`) in the row that they continue
(`rows.py`), events are folded into what a listener believes (`fold.py`) and knows of a rank (`ranks.py`), and every
event is judged by the rules E1 to E5 and P12 (`checking.py`). Where the bytes come from is no matter of theirs: a
recording (`recording.py`), another tool's file (`reading.py`), a live socket (`live.py`).
"""
