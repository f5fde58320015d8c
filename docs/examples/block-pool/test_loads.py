"""Loads that take time, held to the rules of offloading: `pytest docs/examples/block-pool`."""

from typing import ClassVar

from loads import SlowOffload
from offload import Copies, Offload
from test_offload import TestOffload as _TestOffload

from kvproof.testing import Request


class TestLoads(_TestOffload):
    """How kvproof drives the pool, its host tier, and loads that are under way."""

    tier: ClassVar[type[Offload]] = SlowOffload
    offload: SlowOffload

    def load(self, request: Request) -> Copies:
        self.offload.begin(request.name, request.on_host)
        return super().load(request)

    def loaded(self, request: Request, tokens: int) -> None:  # noqa: ARG002 # what failed is not found: it is computed
        self.offload.end(request.name)
