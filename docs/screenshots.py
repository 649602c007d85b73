"""Draws docs/images anew from a recorded run: python docs/screenshots.py (needs Chromium and the dev extra)."""

import shutil
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from nccldoctor import doctor
from nccldoctor.report.html import render

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
WIDE = {"width": 1120, "height": 720}


def main() -> None:
    report = doctor.examine([str(ROOT / "sample_logs" / "2.28.9-nodes4-skip")])
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        file = Path(folder) / "report.html"
        file.write_text(render(report), encoding="utf-8")
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=ARGUMENTS
        )
        for name, settings in {
            "report": {"viewport": WIDE},
            "dark": {"viewport": WIDE, "color_scheme": "dark"},
            "phone": {"viewport": {"width": 390, "height": 780}},
        }.items():
            page = browser.new_context(**settings).new_page()
            page.goto(file.as_uri())
            page.screenshot(path=IMAGES / f"{name}.png")
        page = browser.new_context(viewport=WIDE).new_page()
        page.goto(file.as_uri())
        page.screenshot(path=IMAGES / "ranks-and-topology.png", full_page=True, clip=_clip(page))
        browser.close()


def _clip(page: Any) -> dict[str, float]:
    """From the rank grid to the end of the topology, without the bar that sticks to the top."""
    page.evaluate("document.querySelector('.contents').remove()")
    top = page.locator("#ranks").bounding_box()["y"]
    last = page.locator("#topology").bounding_box()
    return {"x": 0, "y": top, "width": WIDE["width"], "height": last["y"] + last["height"] - top}


if __name__ == "__main__":
    main()
