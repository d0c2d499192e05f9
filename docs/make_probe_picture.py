"""Takes docs/pictures/probe.png, the beginning of a probe's page as a browser shows it.

    sober probe text_detection.onnx --world letters --size 64 --pictures 3000 --out FOLDER
    python docs/make_probe_picture.py FOLDER

The second command needs Playwright and Chromium.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

PICTURE = Path(__file__).parent / "pictures" / "probe.png"
WIDTH, HEIGHT = 1300, 1000  # pixels


def main(folder: Path) -> None:
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        page.goto((folder / "probe.html").resolve().as_uri())
        page.wait_for_timeout(500)
        page.screenshot(path=PICTURE)
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
