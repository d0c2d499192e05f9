"""Settings as text that a person types: `beta=4 estimator=weighted`. Only this file writes and parses such text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from sober.errors import RequestError

if TYPE_CHECKING:
    from sober.types import Setting


def text_of(value: object) -> str:
    """A setting as text, with every digit: `4`, `0.5`, `weighted`, `true`."""
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)


def value_of(text: str) -> Setting:
    """The setting in a text that a person typed."""
    if text in ("true", "false"):
        return text == "true"
    try:
        return float(text)
    except ValueError:
        return text


def assignments(settings: Mapping[str, object]) -> str:
    """Settings as one line: `beta=4 estimator=weighted`."""
    return " ".join(f"{name}={text_of(value)}" for name, value in settings.items())


def parse_assignments(texts: Sequence[str]) -> dict[str, list[Setting]]:
    """`["beta=1,2,4"]` to `{"beta": [1.0, 2.0, 4.0]}`."""
    values: dict[str, list[Setting]] = {}
    for text in texts:
        name, equals, typed = text.partition("=")
        if not equals or not name or not typed:
            raise RequestError(f"--set {text} is not of the form NAME=VALUE,VALUE,…")
        if name in values:
            raise RequestError(f"--set names {name!r} twice: write {name}=VALUE,VALUE")
        values[name] = [value_of(value) for value in typed.split(",")]
    return values


def parse_settings(texts: Sequence[str]) -> dict[str, Setting]:
    """`["mixing=permuted"]` to `{"mixing": "permuted"}`: one value each."""
    settings = parse_assignments(texts)
    for name, values in settings.items():
        if len(values) > 1:
            raise RequestError(f"--set {name}={','.join(map(text_of, values))}: give {name!r} one value")
    return {name: values[0] for name, values in settings.items()}
