"""Dynamo's mocker beside its scheduler around the reference implementation."""
