"""What is installed: Sober itself, under which name, and the optional packages, each with the extra that brings it."""

from __future__ import annotations

import contextlib
import importlib.metadata
import tomllib
from collections.abc import Iterator
from pathlib import Path

from sober.errors import RequestError

DISTRIBUTION = "sober-learn"  # `sober` on the package index is somebody else's package
CHECKOUT = Path(__file__).resolve().parents[2] / "pyproject.toml"  # where Sober runs from its source tree

# The extra that brings each optional package, by the name that Python imports.
EXTRA_OF = {
    "jax": "train",
    "jaxlib": "train",
    "equinox": "train",
    "optax": "train",
    "PIL": "train",
    "h5py": "data",
    "pooch": "data",
    "requests": "data",
    "altair": "report",
    "vl_convert": "report",
    "matplotlib": "report",
    "ray": "ray",
    "optuna": "optuna",
    "onnx": "onnx",
    "onnxruntime": "onnx",
    "torch": "torch",
}


class ExtraError(ImportError, RequestError):
    """An optional package is not installed. The message names the extra that brings it."""


def needs_extra(purpose: str, extra: str) -> str:
    """One line: what needs an extra, and the command that installs the extra."""
    return f"{purpose} needs the extra {extra!r}: pip install -e '.[{extra}]' in a checkout of Sober"


@contextlib.contextmanager
def needing_extra(purpose: str) -> Iterator[None]:
    """Inside it, an optional package that is not installed raises `ExtraError`, for this purpose.

    >>> with needing_extra("reading Shapes3D"):
    ...     import h5py
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRA_OF:
            raise
        raise ExtraError(needs_extra(purpose, EXTRA_OF[package]), name=package) from error


def version() -> str:
    """The version of the installed distribution, or of the checkout that Sober runs from."""
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version(DISTRIBUTION)
    with contextlib.suppress(OSError, ValueError, KeyError):
        project = tomllib.loads(CHECKOUT.read_text(encoding="utf-8"))["project"]
        if project["name"] == DISTRIBUTION:
            return project["version"]
    return "0+unknown"


def shared_name() -> str:
    """A warning, in one line, where a distribution named `sober` is installed too; else an empty string."""
    try:
        other = importlib.metadata.version("sober")
    except importlib.metadata.PackageNotFoundError:
        return ""
    return (
        f"the distribution sober {other} is installed too, and both are imported as `sober`: "
        f"pip uninstall sober {DISTRIBUTION}, then install {DISTRIBUTION} again"
    )
