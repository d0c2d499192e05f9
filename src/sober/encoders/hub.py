"""Weights from the Hugging Face hub, as safetensors. Files of the local cache are used without asking the hub.

Without network the hub's own library tries each file for half a minute. So this asks once whether the hub answers.
"""

from __future__ import annotations

import importlib
import os
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sober.encoders.libraries import needing_package
from sober.errors import RequestError, brief, listed

HUB, TIMEOUT = "https://huggingface.co", 5.0  # seconds until the hub counts as out of reach


def fetched(source: str, repository: str, names: Sequence[str]) -> Path:
    """The first of some files that a repository has, from the cache or the hub."""
    hub = hub_library(source)
    for name in names:
        path = hub.try_to_load_from_cache(repository, name)
        if isinstance(path, str):
            return Path(path)
    check_reachable(source)
    for name in names:
        try:
            return Path(hub.hf_hub_download(repository, name))
        except hub.errors.EntryNotFoundError:
            continue
        except Exception as error:  # the library raises errors of several others
            raise RequestError(f"{source}: the hub does not give {repository}/{name} ({brief(error)})") from error
    raise RequestError(
        f"{source}: {repository} has none of the files {listed(names)}, and Sober loads no pickled weights: choose "
        "other weights"
    )


def hub_library(source: str) -> Any:
    with needing_package(source, "huggingface_hub"):
        return importlib.import_module("huggingface_hub")


def check_reachable(source: str) -> None:
    """Refuses a source whose weights would have to come from the hub, if the hub does not answer."""
    if not reachable(os.environ.get("HF_ENDPOINT", HUB)):
        raise RequestError(
            f"{source}: its weights are not on this machine and cannot be fetched, because the hub does not answer: "
            "connect to the network, copy the hub's cache of another machine (HF_HOME), or ask for random weights"
        )


def reachable(address: str) -> bool:
    """Whether a server answers within seconds."""
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
        return False
    try:
        with urllib.request.urlopen(urllib.request.Request(address, method="HEAD"), timeout=TIMEOUT):
            return True
    except urllib.error.HTTPError:
        return True
    except (OSError, ValueError):
        return False
