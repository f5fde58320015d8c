"""In place of the release's modules: there is nothing to make ready."""
