"""The commands, one module each. What a command needs is imported when it runs, so that the others start fast."""
