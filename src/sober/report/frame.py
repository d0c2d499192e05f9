"""What every page of Sober has: how it begins, its style sheets and scripts, data that no text can break out of."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sober.errors import RequestError, brief
from sober.files import replacing

HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>
{css}
"""  # of every page


def write(path: Path, text: str) -> Path:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary:
            temporary.write_text(text, encoding="utf-8", errors="replace")  # for file names that are not UTF-8
    except OSError as error:
        raise RequestError(f"cannot write {path} ({brief(error)}): choose another path") from error
    return path


def embedded(value: Any) -> str:
    """JSON that can stand in a script element whatever texts it holds: none of them can end or open one."""
    return json.dumps(value, allow_nan=False).replace("<", "\\u003c")


def file(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")
