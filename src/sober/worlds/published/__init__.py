"""Worlds that others published, read from their files."""
