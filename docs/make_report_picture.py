"""Takes docs/pictures/report.png, the beginning of a report as a browser shows it, and choosing.png, its frontier.

    python docs/make_first_ten_minutes.py FOLDER
    python docs/make_report_picture.py FOLDER

The first command trains the models of the first ten minutes and writes their report. The second needs Playwright and
Chromium. The frontier shows results that come with Sober.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

import sober

PICTURE = Path(__file__).parent / "pictures" / "report.png"
REPORT = Path("runs") / "blocks" / "report.html"
WIDTH, HEIGHT = 1300, 1000  # pixels
FRONTIER = Path(__file__).parent / "pictures" / "choosing.png"
RESULTS = "sober_look_dsprites_100k"


def main(folder: Path) -> None:
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        page.goto((folder / REPORT).resolve().as_uri())
        page.wait_for_timeout(1000)
        page.screenshot(path=PICTURE)
        with tempfile.TemporaryDirectory() as temporary:
            report = sober.results(RESULTS).report(out=Path(temporary) / "report.html")
            page.goto(report.resolve().as_uri())
            page.wait_for_timeout(1000)
            page.locator(".frontier").first.screenshot(path=FRONTIER)
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
