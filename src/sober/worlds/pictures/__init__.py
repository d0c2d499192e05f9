"""Worlds of a user's own pictures."""
