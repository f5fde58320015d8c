"""The reference implementation of the block manager, written as an engine would be, without the specification.

From the bottom up: ``free_list``, ``prefix_cache`` and ``events`` make ``block_pool``; ``manager`` adds block tables,
statistics and ``payload``; ``keys`` and ``blocks`` are pure; ``request_flow`` serves whole requests; ``attention``
reads what was written.
"""
