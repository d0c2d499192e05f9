"""The command `sober`. Exit status: 0 success, 2 a wrong request, 1 a failure, 130 stopped by Ctrl-C.

Each command is a file of this folder, imported when a person runs the command.
"""

from __future__ import annotations

import os
import shlex
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from cyclopts import (
    App,
    CoercionError,
    CycloptsError,
    Group,
    MissingArgumentError,
    Parameter,
    UnknownCommandError,
    UnknownOptionError,
    UnusedCliTokensError,
)

from sober.cli.console import complain, console
from sober.cli.overview import NEXT, STUDY_COMMANDS, OneLineEach, groups
from sober.errors import RequestError, listed, refused_by_the_system, unknown
from sober.installation import needing_extra, shared_name, version
from sober.training.progress import Stopped


def _version() -> str:
    if warning := shared_name():
        warnings.warn(warning, stacklevel=1)
    return version()


app = App(
    name="sober",
    help="Train families of representation models at once, and say which to trust.",
    help_epilogue=NEXT,
    help_format="rich",
    version=_version,
    console=console,
    default_parameter=Parameter(json_list=False, json_dict=False),  # the name of a file may begin with a bracket
    suppress_keyboard_interrupt=False,  # `main` says what stopped and how to go on
)
KINDS: dict[type, str] = {int: "a whole number", float: "a number"}  # of values on a command line
# The end of the overview is not for the help of a command, whose docstring is Markdown.
COMMAND: dict[str, Any] = {"help_format": "markdown", "help_epilogue": ""}
GROUPS = groups()
study = App(
    name="study",
    help="""Plan a study, run it here or on a cluster, see where it stands, and make its tables.

    For example:

    - `sober study plan sober_look`
    - `sober study run demo --out runs/demo`
    - `sober study status runs/demo`
    """,
    group_commands=Group("Commands", help_formatter=OneLineEach(STUDY_COMMANDS)),
    group=GROUPS["study"],
    sort_key=list(GROUPS).index("study"),
    **COMMAND,
)
for place, name in enumerate(STUDY_COMMANDS):
    path = "sober.cli.tables:tables" if name == "tables" else f"sober.cli.study:{name}_"
    study.command(path, name=name, sort_key=place)
app.command(study)
for place, (name, group) in enumerate(GROUPS.items()):
    if name != "study":
        app.command(f"sober.cli.{name}:{name}", name=name, group=group, sort_key=place, **COMMAND)
for flag in (*app.help_flags, *app.version_flags):
    app[flag].show = False


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs a command line and exits with its status."""
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _warn  # the end of the block restores it
            with needing_extra("this command"):
                app(arguments, exit_on_error=False, print_error=False, result_action="return_none")
        sys.stdout.flush()  # here, where a full disk can be told
    except (RequestError, CycloptsError) as error:
        complain(f"sober: {_one_line(error)}", style="red")
        sys.exit(2)
    except Stopped as stopped:
        complain(f"sober: {stopped}")
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output has closed it
        _drop_output()
        sys.exit(1)
    except OSError as error:
        _drop_output()
        complain(f"sober: {refused_by_the_system(error)}", style="red")
        sys.exit(1)
    except KeyboardInterrupt:
        complain("sober: interrupted")
        sys.exit(130)


def _drop_output() -> None:
    """Drops output that can no longer be written, so that the end of Python does not try again."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def command_line() -> str:
    """The command line as it was typed. A folder keeps it, so that a person can run it again."""
    return shlex.join(["sober", *sys.argv[1:]])


def _warn(message: Warning | str, *_: Any, **__: Any) -> None:
    """Prints a warning in one line, without the line of code that raised it."""
    complain(f"sober: {' '.join(str(message).split())}")


def _one_line(error: Exception) -> str:
    if isinstance(error, UnusedCliTokensError):
        return _unused(error.unused_tokens or ())
    if isinstance(error, UnknownCommandError) and error.unused_tokens:
        return _unknown_command(error.app or app, error.unused_tokens[0])
    if isinstance(error, UnknownOptionError):
        names = [name for argument in error.argument_collection if argument.show for name in argument.names]
        where = f"`{' '.join(['sober', *(error.command_chain or ())])} --help` lists the options"
        return str(unknown("option", names, error.token.keyword or error.token.value, where))
    if isinstance(error, MissingArgumentError) and error.argument is not None:
        command = " ".join(["sober", *(error.command_chain or ())])
        missing = f"a value for {error.keyword}" if error.keyword else error.argument.name
        return f"{command} needs {missing} (see {command} --help)"
    if isinstance(error, CoercionError) and error.token is not None and error.target_type in KINDS:
        return f"{error.token.keyword or error.token.value} needs {KINDS[error.target_type]}, not {error.token.value!r}"
    text = " ".join(str(error).split())
    return text if isinstance(error, RequestError) else f"{text} (see sober --help)"


def _unknown_command(parent: App, name: str) -> str:
    words = ["sober"] if parent is app else ["sober", *parent.name]
    where = f"`{' '.join(words)} --help` lists the commands"
    return str(unknown("command", [command for command in parent if not command.startswith("-")], name, where))


def _unused(tokens: Sequence[str]) -> str:
    settings = [token for token in tokens if "=" in token]
    advice = f"; each setting needs its own --set, as in --set {settings[0]}" if settings else " (see sober --help)"
    return f"this command has no use for {listed(tokens)}{advice}"
