"""What every page of Sober shares: its head, its style sheets and scripts, and data that no text can break out of."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from sober.errors import RequestError, brief
from sober.files import replacing

NO_HTML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")  # control characters
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
"""


def write(path: Path, text: str) -> Path:
    """Writes a page, without the control characters that a name may hold and HTML may not."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary:
            # A name of a file need not be UTF-8.
            temporary.write_text(NO_HTML.sub("", text), encoding="utf-8", errors="replace")
    except OSError as error:
        raise RequestError(f"cannot write {path} ({brief(error)}): choose another path") from error
    return path


def embedded(value: Any) -> str:
    """JSON for a script element. No text in it can end that element or open another."""
    return json.dumps(value, allow_nan=False).replace("<", "\\u003c")


def file(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")
