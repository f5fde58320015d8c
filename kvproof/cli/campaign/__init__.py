"""A campaign: hunts of a slice of time each, over several targets, with one store of what they find."""
