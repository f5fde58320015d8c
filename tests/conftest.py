"""Hypothesis profiles for all tests: ``quick`` on a desk, ``thorough`` where ``CI`` is set (as ``.ci/run`` does)."""

import os

from hypothesis import settings

settings.register_profile("quick", max_examples=50, deadline=None)
settings.register_profile("thorough", max_examples=400, deadline=None, derandomize=True, print_blob=True)
settings.load_profile("thorough" if os.environ.get("CI") in ("true", "1") else "quick")
