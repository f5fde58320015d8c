"""Views of a machine: prove, explore, fuzz, lockstep, replay. What they drive is a target that is handed in."""
