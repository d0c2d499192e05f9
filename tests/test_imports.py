"""Imports follow the flow from a request to a report, and a training machine needs few packages."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import sober

DESIGN = Path(__file__).parents[1] / "docs" / "design.md"
GRAPH_BEGINS, GRAPH_ENDS = "(`python tests/test_imports.py`):\n\n```\n", "```\n"
SOURCE = Path(sober.__file__).parent

# Who comes before whom. A module may import from strictly earlier lines, and a package from itself.
ORDER = [
    ("defaults", "errors", "parallel", "shared", "short_text"),
    ("installation", "renamed", "types"),
    ("conditions", "files", "settings_text"),
    ("contracts",),
    ("device",),
    ("model_placement",),
    ("worlds", "nets"),
    ("methods",),
    ("models", "setting_words"),
    ("encoders", "training"),
    ("estimators",),
    ("metrics",),
    ("criteria",),
    ("agreement", "probing"),
    ("tasks",),
    ("results",),
    ("interop",),
    ("evaluation",),
    ("report",),
    ("requests",),
    ("cli",),
]
LINE = {part: line for line, parts in enumerate(ORDER) for part in parts}

# What a room does without, although it stands before it: results are data, and a report only reads them.
WITHOUT = {
    "results": {"device", "model_placement", "worlds", "nets", "methods", "models", "training"},
    "report": {"models", "training", "interop", "evaluation"},
}

# All that may be installed on a training machine, and what these need themselves.
ALLOWED = {
    "sober",
    *("jax", "jaxlib", "equinox", "optax", "numpy", "scipy", "sklearn", "matplotlib", "safetensors"),
    *("ml_dtypes", "opt_einsum", "jaxtyping", "wadler_lindig", "typing_extensions", "absl"),  # jax, equinox, optax
    *("joblib", "cloudpickle", "threadpoolctl", "narwhals"),  # scikit-learn
    *(
        "packaging",
        "PIL",
        "pyparsing",
        "cycler",
        "dateutil",
        "six",
        "kiwisolver",
        "contourpy",
        "fontTools",
    ),  # matplotlib
}

ELSEWHERE = ["cyclopts", "rich", "polars", "altair", "pooch", "ray", "optuna", "torch", "hypothesis", "jinja2"]

# Everything else is as if it were not installed, for `import` and for those who ask whether a package is there.
TRAINING_MACHINE = """
import importlib.util, sys
allowed = set(sys.argv[1].split(","))

class Without:
    def __init__(self, finder):
        self.finder = finder

    def __getattr__(self, name):
        return getattr(self.finder, name)

    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top in allowed or top in sys.stdlib_module_names or top.startswith("_sysconfigdata"):
            return self.finder.find_spec(name, path, target)
        return None

assert not {"rich", "cyclopts", "polars"} & sys.modules.keys()
sys.meta_path[:] = map(Without, sys.meta_path)
"""


def part_of(module: str) -> str:
    """`sober.worlds.blocks` is of `worlds`; the root is of ``."""
    return module.split(".")[1] if "." in module else ""


def imported(module: str, is_package: bool, source: str) -> list[str]:
    """What a module imports of Sober, anywhere in it, as full names."""
    names = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            start = module.split(".")
            base = start[: len(start) - node.level + is_package] if node.level else []
            names.append(".".join([*base, *([node.module] if node.module else [])]))
    return [name for name in names if name.split(".")[0] == "sober"]


def offences(module: str, is_package: bool, source: str) -> list[str]:
    """What is wrong with the imports of one module, in words."""
    part = part_of(module)
    if not part:
        return []  # the root is the public face of everything
    if part not in LINE:
        return [f"{module} has no place in the flow: give {part!r} one in ORDER"]
    found = []
    for name in imported(module, is_package, source):
        other = part_of(name)
        if not other:
            found.append(f"{module} imports the root of the package")
        elif other not in LINE:
            found.append(f"{name}, imported by {module}, has no place in the flow: give {other!r} one in ORDER")
        elif other != part and LINE[other] >= LINE[part]:
            found.append(f"{module} imports {name}, which does not come before it")
        elif other in WITHOUT.get(part, ()):
            found.append(f"{module} imports {name}, and {part} does without {other}")
    return found


def modules() -> Iterator[tuple[str, bool, str]]:
    """Every module of Sober: its full name, whether it is a package, and its source."""
    for path in sorted(SOURCE.rglob("*.py")):
        parts = ("sober", *path.relative_to(SOURCE).with_suffix("").parts)
        is_package = parts[-1] == "__init__"
        yield ".".join(parts[:-1] if is_package else parts), is_package, path.read_text(encoding="utf-8")


def graph() -> str:
    """Which room imports which, as docs/design.md shows it: written there by `python tests/test_imports.py`."""
    edges: dict[str, set[str]] = {room: set() for rooms in ORDER for room in rooms}
    for module, is_package, source in modules():
        if room := part_of(module):
            edges[room] |= {part_of(name) for name in imported(module, is_package, source)} - {room, ""}
    width = max(map(len, edges))
    lines = []
    for room, others in edges.items():
        in_order = sorted(others, key=lambda name: (LINE[name], name))
        lines.append(f"{room:{width}}  {' '.join(in_order)}".rstrip())
    return "\n".join(lines)


def with_graph(page: str) -> str:
    """The page with the graph as it is now."""
    before, rest = page.split(GRAPH_BEGINS)
    return f"{before}{GRAPH_BEGINS}{graph()}\n{GRAPH_ENDS}{rest.split(GRAPH_ENDS, maxsplit=1)[1]}"


def test_imports_follow_the_flow() -> None:
    every = list(modules())
    assert len(every) > 10
    found = [offence for module in every for offence in offences(*module)]
    assert not found, "\n".join(found)


def test_the_graph_of_imports_is_that_of_the_page() -> None:
    page = DESIGN.read_text(encoding="utf-8")
    assert with_graph(page) == page, "python tests/test_imports.py writes the graph anew"


def test_contributing_names_the_rooms_in_their_order() -> None:
    page = (DESIGN.parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    flow = page.split("## The flow of imports\n\n```\n")[1].split("```")[0]
    assert flow.split() == " > ".join(", ".join(rooms) for rooms in ORDER).split()


READING = """
import sys
import sober.results
from sober.results.runs import as_runs
results = sober.results.Folder.open(sys.argv[1])
table = results.store.table()
made, lacking = sober.results.make_tables(as_runs(table), ["leaderboard"], resamples=5)
assert made and table.height
heavy = ("jax", "equinox", "optax", "sober.models", "sober.training", "sober.methods", "sober.nets", "sober.worlds")
print([name for name in heavy if name in sys.modules])
"""


def test_reading_results_needs_nothing_that_trains(start: Callable) -> None:
    process = start(READING, str(SOURCE.parents[1] / "results" / "rooms_on_a_cpu"))
    assert process.communicate(timeout=60)[0] == "[]\n"


@pytest.mark.parametrize(
    ("module", "source", "says"),
    [
        ("sober.worlds.blocks", "from sober.training.train import train", "does not come before"),
        ("sober.worlds.blocks", "from sober.nets import NETS", "does not come before"),
        ("sober.worlds.blocks", "def f():\n    import sober.cli", "does not come before"),
        ("sober.worlds.blocks", "from ..nets import NETS", "does not come before"),
        ("sober.worlds.blocks", "import sober", "the root"),
        ("sober.worlds.blocks", "from sober import types", "the root"),
        ("sober.worlds.blocks", "from sober.novelty import x", "give 'novelty' one in ORDER"),
        ("sober.novelty", "", "give 'novelty' one in ORDER"),
        ("sober.cli.main", "from sober.cli.console import bar\nimport sober", "the root"),
        ("sober.results.folder", "from sober.models.model import load", "results does without models"),
        ("sober.report.report", "from sober.evaluation.showcase import showcase", "report does without evaluation"),
    ],
)
def test_an_import_against_the_flow_is_found(module: str, source: str, says: str) -> None:
    (offence,) = offences(module, False, source)
    assert says in offence
    assert module in offence


@pytest.mark.parametrize(
    ("module", "is_package", "source"),
    [
        (
            "sober.worlds.blocks",
            False,
            "import numpy\nfrom sober.types import Factor\nfrom sober.worlds.world import World",
        ),
        ("sober.worlds.blocks", False, "from .world import World\nfrom ..types import Factor"),
        ("sober.worlds", True, "from .blocks import Blocks\nfrom ..errors import listed"),
        ("sober", True, "from sober.cli import main"),
    ],
)
def test_an_import_along_the_flow_is_not_found(module: str, is_package: bool, source: str) -> None:
    assert offences(module, is_package, source) == []


def test_what_training_needs_imports_on_a_training_machine(start: Callable) -> None:
    needed = [
        "worlds",
        "nets",
        "methods",
        "training.train",
        "models.encode",
        "requests.train",
        "requests.study.study_engines",
    ]
    code = TRAINING_MACHINE + "".join(f"import sober.{name}\n" for name in needed)
    process = start(code, ",".join(ALLOWED))
    assert process.communicate(timeout=60)[0] == ""
    assert process.returncode == 0


def test_a_training_machine_has_nothing_else(start: Callable) -> None:
    code = TRAINING_MACHINE + "print([name for name in sys.argv[2:] if importlib.util.find_spec(name)])\nimport rich\n"
    process = start(code, ",".join(ALLOWED), *ELSEWHERE)
    output = process.communicate(timeout=60)[0]
    assert output.startswith("[]\n")
    assert "No module named 'rich'" in output


# Not every command needs these, and most take a third of a second to import or more. (`scipy` itself is light.)
HEAVY = ["matplotlib", "scipy.stats", "scipy.sparse", "scipy.io", "sklearn", "numba", "polars", "altair", "h5py", "PIL"]


def test_the_command_line_starts_without_what_only_some_commands_need(start: Callable) -> None:
    process = start("import sys, sober.cli\nprint([name for name in sys.argv[1:] if name in sys.modules])", *HEAVY)
    assert process.communicate(timeout=60)[0] == "[]\n"


if __name__ == "__main__":
    DESIGN.write_text(with_graph(DESIGN.read_text(encoding="utf-8")), encoding="utf-8")
