"""SGLang: all that the kit knows of it."""
