"""Tests: packages, so that the modules with machines for tests can be imported."""
