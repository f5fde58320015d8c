"""For hybrid models: ``cache`` has several groups over one pool, ``planner`` and ``aligned_split`` the arithmetic, and
``window`` serves requests that leave blocks behind. ``multi_connector`` chooses among stores, of which
``store_connectors`` has one in memory (``host_store``) and one in files (``file_store``).
"""
