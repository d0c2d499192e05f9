"""The command `sober`. Exit status: 0 success, 2 a wrong request, 1 a failure, 130 stopped by Ctrl-C.

Each command is a file of this folder, imported when it is asked for.
"""

from __future__ import annotations

import importlib.metadata
import os
import shlex
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from cyclopts import App, CycloptsError, UnusedCliTokensError

from sober.cli.console import errors
from sober.errors import RequestError, listed
from sober.training.progress import Stopped

app = App(
    name="sober",
    help="Train families of representation models at once, and say which to trust.",
    version=lambda: importlib.metadata.version("sober"),
    help_format="markdown",
    suppress_keyboard_interrupt=False,  # `main` says what was stopped and how to go on
)
for name in (
    *("demo", "worlds", "methods", "metrics", "criteria", "tasks", "train", "encode", "score", "select", "fit", "tune"),
    *("report", "tables", "explore", "traverse", "results"),
):
    app.command(f"sober.cli.{name}:{name}", name=name)

study = App(
    name="study",
    help="""Plan a study, run it here or on a cluster, see where it stands, and make its tables.

    Examples: `sober study plan sober_look` · `sober study run demo --out runs/demo` · `sober study status runs/demo`
    """,
)
for name in ("list", "plan", "run", "status"):
    study.command(f"sober.cli.study:{name}_", name=name)
study.command("sober.cli.tables:tables", name="tables")
app.command(study)


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs a command line and exits with its status."""
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _warn  # put back at the end of the block
            app(arguments, exit_on_error=False, print_error=False, result_action="return_none")
    except (RequestError, CycloptsError) as error:
        errors.print(f"sober: {_one_line(error)}", style="red", soft_wrap=True, markup=False)
        sys.exit(2)
    except Stopped as stopped:
        errors.print(f"sober: {stopped}", style="yellow", soft_wrap=True, markup=False)
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nor may the last flush complain
        sys.exit(1)
    except KeyboardInterrupt:
        errors.print("sober: interrupted", style="yellow")
        sys.exit(130)


def command_line() -> str:
    """What was typed, for those who want to do it again."""
    return shlex.join(["sober", *sys.argv[1:]])


def _warn(message: Warning | str, *_: Any, **__: Any) -> None:
    """A warning as a person wants to read it, without the line of code it comes from."""
    errors.print(f"sober: {' '.join(str(message).split())}", style="yellow", soft_wrap=True, markup=False)


def _one_line(error: Exception) -> str:
    if isinstance(error, UnusedCliTokensError):
        return _unused(error.unused_tokens or ())
    text = " ".join(str(error).split())
    return text if isinstance(error, RequestError) else f"{text} (see sober --help)"


def _unused(tokens: Sequence[str]) -> str:
    settings = [token for token in tokens if "=" in token]
    each = f"; each setting needs its own --set, as in --set {settings[0]}" if settings else " (see sober --help)"
    return f"this command has no use for {listed(tokens)}{each}"
