"""What differs between releases of SGLang, each in one place."""

from sglang.srt.mem_cache import events

__all__ = ["lora_names", "make_requests", "name_adapter"]

_OF_REQUESTS = hasattr(events, "KvEventLoraNames")
"""Since 0.5.23 a request says which namespace is an adapter's; before, the adapter's id did."""


def lora_names():
    """Return an empty table of the names that adapters have in KV events."""
    return events.KvEventLoraNames() if _OF_REQUESTS else events.LoRANameTable()


def name_adapter(names, req, adapter: str) -> None:
    """Say which adapter a request is for."""
    if _OF_REQUESTS:
        names.register(req, adapter)
    else:
        names.register(lora_id=req.lora_id, lora_name=adapter)


def make_requests(kind: type) -> None:
    """Let a scheduler make its requests of a kind of ours: before 0.5.23 it has no method for that, but a name."""
    from sglang.srt.managers import scheduler
    from sglang.srt.session import session_controller

    if not hasattr(scheduler.Scheduler, "_create_generation_req"):
        scheduler.Req = session_controller.Req = kind
