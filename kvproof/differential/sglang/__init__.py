"""SGLang: two implementations of one release, beside each other."""
