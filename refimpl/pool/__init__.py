"""The block pool and its manager.

From the bottom up ``free_list`` and ``prefix_cache`` make ``block_pool``; ``manager`` adds block tables and statistics;
``keys`` and ``blocks`` are pure; ``request_flow`` serves whole requests. ``pinned_pool`` keeps chosen blocks longer.
"""
