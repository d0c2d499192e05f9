"""Worlds that Sober draws."""
