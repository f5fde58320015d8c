"""Tests of the engines: the store, the worker, the oracles."""
