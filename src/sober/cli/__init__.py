"""The command `sober`."""

from sober.cli.main import app, main

__all__ = ["app", "main"]
