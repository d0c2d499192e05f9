"""The documentation does what it says: its code runs, its commands parse, nothing is missing, the site builds.

Blocks of one page run in order, in one namespace, in a folder that holds what readers are supposed to have: trained and
scored models in `runs/blocks`, an archive of codes, a folder of photographs. `READER` names what a page takes from its
reader, `SMALLER` what is replaced so that minutes become moments.
"""

from __future__ import annotations

import importlib.util
import inspect
import re
import shlex
import shutil
import subprocess
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from cyclopts import App

from conftest import ROOT
from families import BLOCKS, small_runs
from scripts import load_script
from sober.cli import app
from sober.criteria import CRITERIA
from sober.methods import METHODS
from sober.metrics import METRICS
from sober.requests.results import open_results
from sober.requests.train import train
from sober.tasks import TASKS
from sober.worlds import WORLDS

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
EXTRAS = ("duckdb", "onnx", "onnxruntime", "pandas", "pyarrow", "torch")  # packages that not everyone has
MOST_LEFT_OUT = 10  # blocks that do not run, in all pages together

# What makes a block quick, by page: smaller numbers, and one criterion where there are two.
SMALLER: Mapping[str, Mapping[str, str]] = {
    "README.md": {"steps=6000": "steps=20", "[1, 2, 4]": "[1, 4]", "seeds=4": "seeds=3"},
    "docs/criteria/pipe.md": {"results.world)": "results.world, steps=5)"},
    "docs/metrics/index.md": {"repeats=10": "repeats=2"},
    "docs/fit_my_pictures.md": {
        "1_000": "20",
        "latents=6, steps=2500": "latents=3, seeds=2, steps=20, criteria=['udr']",
    },
    "docs/tasks/downstream.md": {"6_000": "300", "1_000": "100", '_1000"': '_100"'},
    "docs/tasks/zero_shot.md": {"20_000": "400", "4_000": "200"},
    "docs/tasks/abstract_reasoning.md": {
        '"steps": 6000': '"nets": 1, "steps": 6, "width": 0.05, "tested": 2',
        "steps=600": "nets=1, steps=6, width=0.05, tested=2",
    },
    "docs/training.md": {"steps=200": "steps=20"},
    "docs/tune.md": {"trials=18": "trials=2, seeds=3", "steps=3000": "steps=20"},
    "docs/worlds/pictures.md": {"steps=20_000": "steps=2", 'folder="photos"': 'folder="photos", size=16'},
}

# What a page adds to a registry, by the name its first block gives it.
ADDED: Mapping[str, tuple[dict[str, Any], str, str]] = {
    "docs/add_method.md": (METHODS, "sparse_vae", "sober.methods.sparse_vae"),
    "docs/add_world.md": (WORLDS, "disc", "sober.worlds.disc"),
    "docs/add_metric.md": (METRICS, "dominance", "sober.metrics.dominance"),
    "docs/add_criterion.md": (CRITERIA, "evenness", "sober.criteria.evenness"),
    "docs/add_task.md": (TASKS, "retrieval", "sober.tasks.retrieval"),
}


class Block(NamedTuple):
    """A fenced block: its language, its text, the line it begins at, and why it is not run where a page says so."""

    language: str
    text: str
    line: int
    left_out: str | None


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    found = re.finditer(r"^(?:<!-- not run:(.*?)-->\n)?```(\w*)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    return [Block(each[2], each[3], text[: each.start(3)].count("\n"), each[1]) for each in found]


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def pages_with(*languages: str) -> list[Path]:
    return [page for page in PAGES if any(block.language in languages for block in blocks(page))]


@pytest.fixture(scope="module")
def belongings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what readers have."""
    from PIL import Image  # noqa: PLC0415

    folder = tmp_path_factory.mktemp("reader")
    runs = small_runs(sweep={"beta": [1, 4]}, seeds=3, latents=6, batch=64)  # those of the README, made smaller
    results = train(runs, BLOCKS, folder / "runs" / "blocks")
    results.score(["mig"])
    codes = results.codes(runs[0], pictures=256)
    np.savez(folder / "codes.npz", codes=codes.mean, logvar=codes.logvar, factors=codes.factors)
    (folder / "photos").mkdir()
    for number, image in enumerate(BLOCKS.sample(0, 20).images):
        Image.fromarray(image[..., 0]).save(folder / "photos" / f"{number:02}.png")
    return folder


def arrays(count: int = 250, latents: int = 4, factors: int = 3) -> dict[str, Any]:
    """Codes that hold three factors, one of them spread over two latents."""
    rng = np.random.default_rng(0)
    values = rng.integers(0, 4, (count, factors))
    mean = values[:, [0, 1, 2, 2]] + 0.3 * rng.normal(size=(count, latents))
    return {"codes": mean, "factors": values, "logvar": np.full((count, latents), -2.0)}


def for_torch(factors: int = 3) -> dict[str, Any]:
    if importlib.util.find_spec("torch") is None:
        return {}
    import torch  # noqa: PLC0415

    images, labels = torch.rand(250, 1, 8, 8), torch.randint(0, 4, (250, factors))
    encoder = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 4))
    loader = list(zip(images.split(125), labels.split(125), strict=True))
    return {"images": images, "encoder": encoder, "loader": loader}


def in_batches() -> dict[str, Any]:
    """A loader and an encoder of NumPy alone, so that the page runs everywhere."""
    held = arrays()
    batches = list(zip(np.split(held["codes"], 5), np.split(held["factors"], 5), strict=True))
    return {"loader": batches, "encoder": lambda pictures: pictures}


def two_layers() -> dict[str, Any]:
    held = arrays()
    return {"first": held["codes"], "second": held["codes"][:, :3] @ np.ones((3, 2)), "factors": held["factors"]}


def three_seeds() -> dict[str, Any]:
    sources = np.random.default_rng(0).laplace(size=(250, 4))
    names = ("first", "second", "third")
    return {
        name: sources + 0.2 * np.random.default_rng(seed).normal(size=sources.shape) for seed, name in enumerate(names)
    }


def models_of(folder: Path) -> dict[str, Any]:
    found = list(open_results(folder / "runs" / "blocks").encode(pictures=256))
    return {"runs": [run for run, _ in found], "codes": [codes for _, codes in found]}


def own_pictures(folder: Path) -> dict[str, Any]:
    images = BLOCKS.sample(0, 20).images
    rows = [{"image": image, "label": number % 3} for number, image in enumerate(images)]
    return {"images": images, "species": np.arange(20) % 4, "height": np.linspace(1, 2, 20), "dataset": rows}


READER: Mapping[str, Callable[[Path], dict[str, Any]]] = {
    "README.md": lambda folder: for_torch(factors=4),
    "docs/score_my_representation.md": lambda folder: arrays() | for_torch(),
    "docs/compare.md": lambda folder: two_layers(),
    "docs/agree.md": lambda folder: three_seeds(),
    "docs/from_elsewhere.md": lambda folder: arrays() | in_batches(),
    "docs/criteria/udr.md": models_of,
    "docs/criteria/model_centrality.md": models_of,
    "docs/worlds/faces3d.md": lambda folder: {"renders": np.zeros((2, 21, 11, 11, 8, 8), np.uint8)},
    "docs/worlds/pictures.md": own_pictures,
    "docs/fit_my_pictures.md": own_pictures,
    "docs/metrics/index.md": lambda folder: arrays() | for_torch(),
    **{name_of(page): lambda folder: arrays() for page in ROOT.glob("docs/tasks/*.md")},
    **{name_of(page): lambda folder: arrays() for page in ROOT.glob("docs/metrics/*.md") if page.stem != "index"},
}


def smaller(page: str, text: str) -> str:
    for large, small in SMALLER.get(page, {}).items():
        text = text.replace(large, small)
    return text


def missing(text: str) -> list[str]:
    """Packages that a block imports and that are not installed here."""
    return [each for each in EXTRAS if re.search(rf"\b{each}\b", text) and importlib.util.find_spec(each) is None]


@pytest.mark.parametrize("page", pages_with("python"), ids=name_of)
def test_code_runs(page: Path, belongings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = name_of(page)
    here = shutil.copytree(belongings, tmp_path / "here")
    monkeypatch.chdir(here)
    module = types.ModuleType("page")
    vars(module).update(READER[name](here) if name in READER else {})
    lacking: list[str] = []
    for block in blocks(page):
        if block.language != "python" or block.left_out is not None:
            continue
        if lacks := missing(block.text):
            lacking += lacks
            continue
        code = compile("\n" * block.line + smaller(name, block.text), str(page), "exec")
        exec(code, vars(module))
        if name in ADDED:
            register(module, *ADDED[name], monkeypatch)
    for test in [value for key, value in vars(module).items() if key.startswith("test_")]:
        test(*[tmp_path / test.__name__] * len(inspect.signature(test).parameters))
    if lacking:
        pytest.skip(f"all but the blocks that need {', '.join(sorted(set(lacking)))}")


def register(
    module: types.ModuleType, registry: dict[str, Any], entry: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the page's second step does by hand: a line in the registry, and a module of that name."""
    monkeypatch.setitem(sys.modules, path, module)
    monkeypatch.setitem(registry, entry, getattr(module, entry, None) or getattr(module, entry.capitalize()))


@pytest.mark.parametrize("name", SMALLER)
def test_what_is_made_smaller_is_there(name: str) -> None:
    code = "".join(block.text for block in blocks(ROOT / name) if block.language == "python")
    assert [large for large in SMALLER[name] if large not in code] == []


def test_code_that_is_not_run_says_why_and_is_rare() -> None:
    reasons = [block.left_out.strip() for page in PAGES for block in blocks(page) if block.left_out is not None]
    assert all(len(reason.split()) > 2 for reason in reasons), reasons
    assert len(reasons) < MOST_LEFT_OUT
    marks = sum(page.read_text(encoding="utf-8").count("<!-- not run:") for page in PAGES)
    assert marks == len(reasons), "a mark stands directly above the block it is about"


def command_lines(page: Path) -> Iterator[str]:
    """Lines of shell blocks that call `sober`, continued lines joined."""
    for block in blocks(page):
        if block.language in ("", "console", "sh", "shell", "bash"):
            for line in block.text.replace("\\\n", " ").splitlines():
                if line.removeprefix("$ ").startswith("sober "):
                    yield line.removeprefix("$ ")


@pytest.mark.parametrize("page", [page for page in PAGES if any(command_lines(page))], ids=name_of)
def test_commands_parse(page: Path) -> None:
    for line in command_lines(page):
        words = shlex.split(line, comments=True)[1:]
        if words != ["--version"]:
            app.parse_args(words, exit_on_error=False, print_error=False)


def commands(of: App, *path: str) -> Iterator[tuple[tuple[str, ...], App]]:
    for name in of:
        if not name.startswith("-"):
            yield (*path, name), of[name]
            yield from commands(of[name], *path, name)


@pytest.mark.parametrize(
    ("path", "command"), list(commands(app)), ids=lambda of: "-".join(of) if isinstance(of, tuple) else ""
)
def test_every_command_and_option_is_documented(path: tuple[str, ...], command: App) -> None:
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    heading = f"## sober {' '.join(path)}\n"
    assert heading in page, f"docs/cli.md has no section {heading.strip()!r}"
    section = page.partition(heading)[2].partition("\n## ")[0]
    assert f"[`sober {' '.join(path)}`](#sober-{'-'.join(path)})" in page, "the table of commands lacks it"
    if command.default_command is not None:
        for argument in command.assemble_argument_collection():
            assert re.search(rf"`{argument.names[0]}[ `]", section), f"{heading.strip()} lacks {argument.names[0]}"


HOOKS = load_script(ROOT / "docs" / "hooks.py")


@pytest.mark.parametrize("folder", HOOKS.SECTIONS)
def test_every_entry_of_a_registry_has_a_page_that_names_its_settings(folder: str) -> None:
    for name, entry in HOOKS.SECTIONS[folder].registry.items():
        page = ROOT / "docs" / HOOKS.page_of(folder, name)
        text = page.read_text(encoding="utf-8")
        settings = getattr(entry, "settings", {})
        names = settings if isinstance(settings, Mapping) else [each.name for each in entry.hyper]
        for setting in names if folder != "worlds" else ():
            assert f"`{setting}" in text, f"{page.name} lacks {setting}"


def test_an_entry_without_a_page_stops_the_build(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METRICS, "unheard_of", METRICS["mig"])
    with pytest.raises(LookupError, match=r"unheard_of has no page: write docs/metrics/unheard_of\.md"):
        HOOKS.navigation()


def test_links_between_the_root_and_the_pages_are_turned() -> None:
    text = "[a](../../README.md#two-commands) [b](../pictures/x.png) [c](#here) [d](https://x.org/docs/y)\n"
    assert HOOKS.turned(text, "worlds/blocks.md") == (
        "[a](../readme.md#two-commands) [b](../pictures/x.png) [c](#here) [d](https://x.org/docs/y)\n"
    )
    assert HOOKS.turned("[a](docs/cli.md) [b](LICENSE)", "readme.md") == "[a](cli.md) [b](LICENSE)"
    assert HOOKS.turned("```\n[a](docs/cli.md)\n```", "readme.md") == "```\n[a](docs/cli.md)\n```"


@pytest.mark.skipif(importlib.util.find_spec("mkdocs") is None, reason="mkdocs is not installed: make docs installs it")
def test_the_site_builds_and_asks_nothing_of_the_network(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr[-3000:]
    assert "`mig` in the registry" in re.sub(r"</?code>", "`", (tmp_path / "metrics" / "mig.html").read_text("utf-8"))
    for page in tmp_path.rglob("*.html"):
        fetched = re.findall(r"<(?:script|img|iframe)[^>]+src=\"?(https?:[^\s\">]+)", page.read_text(encoding="utf-8"))
        fetched += re.findall(r"<link[^>]+stylesheet[^>]+href=\"?(https?:[^\s\">]+)", page.read_text(encoding="utf-8"))
        assert not fetched, (page, fetched)
