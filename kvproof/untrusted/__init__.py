"""What others send: how much of it is read, how it is read, and how it is shown. See docs/trust.md."""
