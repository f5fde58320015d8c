"""Streams of KV events: what is read, what is believed, what is found wrong, recorded and live."""
