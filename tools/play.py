"""Plays a newcomer, and keeps what he sees: the terminal at 80 columns, and pages in a browser.

    python tools/play.py OUT

Needs what the tests need, Chromium, and Fashion-MNIST where Debian's package `dataset-fashion-mnist` puts it (else
scikit-learn's digits are taken). It leaves OUT/terminal.txt and one PNG for each page, width and colour scheme, to be
looked at, and names lines that are too long for the terminal.
"""

from __future__ import annotations

import argparse
import gzip
import os
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
CLOTHES = Path("/usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz")
COLUMNS = 80
WIDTHS = (1300, 390)  # of the browser's window, in pixels

COMMANDS = [
    "sober",
    "sober metrics",
    "sober metrics mig",
    "sober score codes.csv --factors factors.csv",
    "sober score codes.csv --factors factors.csv --metrics mgi",
    "sober fit three --out three_fitted --minutes 1",
    "sober fit clothes --out hardly --steps 60",
    "sober fit clothes --out fitted --minutes 3",
    "sober traverse fitted",
    "sober demo --out demo",
    "sober score demo --metrics mig,dci",
    "sober select demo",
    "sober tables demo --names leaderboard",
    "sober results",
    "sober score codes.csv noise.csv --factors factors.csv --out compared.html",
]
PAGES = ("hardly/report.html", "fitted/report.html", "demo/report.html", "compared.html")


def write_data(out: Path) -> None:
    """Pictures as files, and codes and factors as tables."""
    from PIL import Image  # noqa: PLC0415

    if CLOTHES.exists():
        pictures = np.frombuffer(gzip.decompress(CLOTHES.read_bytes()), np.uint8, offset=16).reshape(-1, 28, 28)
    else:
        from sklearn.datasets import load_digits  # noqa: PLC0415

        pictures = (load_digits().images * 255 / 16).astype(np.uint8)
    for name, count in (("clothes", 500), ("three", 3)):
        (out / name).mkdir()
        for number, picture in enumerate(pictures[:count]):
            Image.fromarray(picture).save(out / name / f"{number}.png")
    rng = np.random.default_rng(0)
    factors = rng.integers(0, 4, (2000, 3))
    codes = factors + rng.normal(0, 0.3, factors.shape)
    for name, table in (("codes", codes), ("noise", rng.normal(size=codes.shape))):
        np.savetxt(out / f"{name}.csv", table, delimiter=",", header="a,b,c", comments="")
    np.savetxt(out / "factors.csv", factors, fmt="%d", delimiter=",", header="shape,size,colour", comments="")


def play(out: Path) -> None:
    """Runs the commands one after another and writes what they print."""
    environment = {**os.environ, "COLUMNS": str(COLUMNS), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    with (out / "terminal.txt").open("w", encoding="utf-8") as terminal:
        for command in COMMANDS:
            began = time.monotonic()
            done = subprocess.run(
                shlex.split(command), check=False, cwd=out, env=environment, capture_output=True, text=True
            )
            printed = done.stdout + done.stderr
            terminal.write(f"$ {command}\n{printed}[exit {done.returncode}, {time.monotonic() - began:.0f} s]\n\n")
            long = [line for line in printed.splitlines() if len(line.split("\r")[-1].rstrip()) > COLUMNS]
            print(f"{done.returncode}  {time.monotonic() - began:5.0f} s  {command}", *long, sep="\n    ")


def photograph(out: Path) -> None:
    """Pictures of each page as it opens, in both widths and colour schemes."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415

    path = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        for page in PAGES:
            for width in WIDTHS:
                for scheme in ("light", "dark"):
                    context = browser.new_context(viewport={"width": width, "height": 1000}, color_scheme=scheme)
                    tab = context.new_page()
                    tab.goto((out / page).as_uri())
                    tab.wait_for_timeout(1000)
                    height = tab.evaluate("document.documentElement.scrollHeight")
                    name = f"{page.replace('/report.html', '').replace('.html', '')}-{width}-{scheme}.png"
                    tab.screenshot(path=out / name)
                    print(f"{name}: the page is {height:,} pixels long")
                    context.close()
        browser.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, help="a new folder")
    out = parser.parse_args().out.absolute()
    out.mkdir(parents=True)
    write_data(out)
    play(out)
    photograph(out)


if __name__ == "__main__":
    main()
