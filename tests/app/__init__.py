"""Tests of the application: traces, workload, command line."""
