"""Docstrings as the site shows them: examples that begin with >>> become blocks of code."""

from __future__ import annotations

import re
from typing import Any

import griffe


def fenced(text: str) -> str:
    """Text with each run of example lines between fences, which Markdown would else take for quotations."""
    examples = r"(?:^(?:>>>|\.\.\.) .*$\n?)+"
    return re.sub(examples, lambda run: f"```pycon\n{run[0].rstrip()}\n```\n", text, flags=re.MULTILINE)


class Examples(griffe.Extension):
    """Fences the examples of every docstring."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)

    def on_module_members(self, *, mod: griffe.Module, **kwargs: Any) -> None:
        """Forgets `results = shipped_results` of the stub, which would hide the package of that name."""
        if mod.path == "sober" and str(mod.filepath).endswith(".pyi"):
            mod.members.pop("results", None)
