"""Tiers in virtual time.

``links`` share a bandwidth, ``tiers`` put the device and the host of one worker on them, ``shared_tier`` is one for
several workers (``shared_access``); ``replay`` serves requests on these, by any of ``clocks``.
"""
