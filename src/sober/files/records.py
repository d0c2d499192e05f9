"""Small JSON files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sober.errors import RequestError, brief
from sober.files.whole import replacing


def write_json(path: Path, value: Any) -> None:
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise RequestError(f"{path} cannot be read ({brief(error)}): restore it, or choose another folder") from error
