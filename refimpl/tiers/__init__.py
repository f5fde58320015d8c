"""A host tier behind the manager: ``mirror`` copies what is complete to a ``host_tier`` and reloads it from there."""
