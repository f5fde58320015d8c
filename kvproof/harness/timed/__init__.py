"""Links and tiers in virtual time."""
