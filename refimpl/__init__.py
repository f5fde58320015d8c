"""The reference implementation of the block manager, written as an engine would be, without the specification.

From the bottom up: ``free_list``, ``prefix_cache`` and ``events`` make ``block_pool``; ``manager`` adds block tables,
statistics and ``payload``; ``keys`` and ``blocks`` are pure; ``request_flow`` serves whole requests; ``attention``
reads what was written. Two extensions stand beside them and compose: ``pinned_pool`` keeps chosen blocks longer than
others, and ``window`` serves requests that leave blocks behind; ``mirror`` puts a ``host_tier`` behind the manager.
``offload`` copies to a host pool and back asynchronously: it talks to ``offload_worker`` by the messages of
``transfers``, and ``offload_flow`` runs both.

Two families stand beside that. In virtual time: ``links`` share a bandwidth, ``timed_tiers`` put device and host of one
worker on them, ``shared_tier`` is one for several workers; ``tier_replay`` serves requests on these, by any of
``clocks``. For hybrid models: ``hybrid_cache`` has several groups over one pool, ``hybrid_planner`` and
``aligned_split`` the arithmetic; ``multi_connector`` chooses among stores, of which ``store_connectors`` has one in
memory (``host_store``) and one in files (``file_store``).
"""
