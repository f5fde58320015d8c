"""The host tiers: mirror, pinned queue, both."""
