"""The report in a real Chromium: opens from a file, asks nobody for anything, works without script, on a phone, in the dark."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sync_api = pytest.importorskip("playwright.sync_api")

from nccldoctor import doctor  # noqa: E402
from nccldoctor.report.html import render  # noqa: E402

pytestmark = [pytest.mark.browser]
_CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
_ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
HOSTILE = (
    "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\"></pre></style></title>"
    "<svg onload=document.title='owned'> \"'` \x1b[31m \u202e javascript:document.title='owned' https://evil.example/x "
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if _CHROMIUM is None:
        pytest.skip("no chromium on this machine; .ci/browser installs it")
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=_CHROMIUM, args=_ARGUMENTS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def page_of(
    browser: Any, make_report: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Any]:
    """page_of(word="", size=8, **context) → an open page that noted every complaint and request."""
    contexts = []
    files: dict[Any, Path] = {}

    def open_page(word: str = "", size: int = 8, fragment: str = "", **settings: Any) -> Any:
        if (word, size) not in files:
            file = tmp_path_factory.mktemp("page") / "report with space.html"
            file.write_text(render(make_report(size, 8 if size > 8 else 2, word)), encoding="utf-8")
            files[word, size] = file
        context = browser.new_context(**settings)
        contexts.append(context)
        page = context.new_page()
        page.complaints = []
        page.on("console", lambda message: page.complaints.append(message.text))
        page.on("pageerror", lambda error: page.complaints.append(str(error)))
        page.on("dialog", lambda dialog: page.complaints.append("dialog"))
        page.on("request", lambda request: page.complaints.append(request.url))
        page.goto(files[word, size].as_uri() + fragment)
        assert page.complaints.pop(0).startswith("file://")
        return page

    yield open_page
    for context in contexts:
        context.close()


def test_opens_from_a_file_and_asks_for_nothing(page_of: Any) -> None:
    page = page_of(viewport={"width": 1200, "height": 800})
    page.wait_for_timeout(200)
    assert page.complaints == []
    headline = page.locator("h1").bounding_box()
    steps = page.locator("ol.steps li").last.bounding_box()
    assert headline["y"] < 200
    assert steps["y"] + steps["height"] < 800


def test_hostile_text_changes_nothing(page_of: Any) -> None:
    page = page_of(HOSTILE)
    page.wait_for_timeout(200)
    assert page.complaints == []
    assert page.title().startswith("Hung: Rank 7")
    assert "owned" not in page.title().replace(HOSTILE, "")[:4]
    clean, dirty = page_of(), page
    for selector in ("script", "style", "img", "iframe", "a", "article", "section", "table"):
        assert dirty.locator(selector).count() == clean.locator(selector).count(), selector
    assert "\u202e" not in page.content()


def test_hostile_log_through_the_whole_line(browser: Any, tmp_path: Path) -> None:
    head = "node-1:10:10 [0] NCCL INFO "
    log = "".join(
        [
            f"{head}NCCL version 2.28.9+cuda13.0\n",
            f"{head}NCCL_{HOSTILE[:30]} set by environment to {HOSTILE}\n",
            f"{head}comm {HOSTILE}\n",
            f"node-1:10:11 [0] x.cc:1 NCCL WARN {HOSTILE}\n",
            f"node-1:10:11 [0] x.cc:2 NCCL WARN {'A' * 1_000_000}<script>\n",
            f"node-1:10:11 [0] init.cc:3 NCCL WARN Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 60 {HOSTILE}\n",
        ]
    )
    (tmp_path / "<img src=x>.log").write_text(log, encoding="utf-8")
    page_text = render(doctor.examine([str(tmp_path)]))
    assert len(page_text.encode()) < 300_000
    file = tmp_path / "report.html"
    file.write_text(page_text, encoding="utf-8")
    page = browser.new_page()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("dialog", lambda dialog: complaints.append("dialog"))
    page.goto(file.as_uri())
    assert complaints == []
    assert page.locator("script").count() == 1
    assert page.locator("img").count() == 0
    assert page.title().startswith("Failed: ")
    page.close()


def test_all_is_readable_without_script(page_of: Any) -> None:
    page = page_of(java_script_enabled=False)
    assert page.locator("button").count() == 0
    assert not page.locator(".filters").is_visible()
    assert page.locator("h1").is_visible()
    assert page.locator("#ranks svg").is_visible()
    assert page.locator("#HANG01 pre").first.is_visible()
    page.locator(".children > summary").first.click()
    assert page.locator("#HANG04 h3").is_visible()


def test_filters(page_of: Any) -> None:
    page = page_of()
    page.uncheck("[name=severity][value=error]")
    assert not page.locator("#HANG01").is_visible()
    assert page.locator("#ENV03").is_visible()
    page.check("[name=severity][value=error]")
    page.fill("[name=rank]", "7")
    assert page.locator("#HANG01").is_visible()
    assert not page.locator("#ENV03").is_visible()
    page.fill("[name=rank]", "")
    page.fill("[name=words]", "nccl_algo")
    assert not page.locator("#HANG01").is_visible()
    page.fill("[name=words]", "")
    page.select_option("[name=host]", "gpu-node-01")
    assert page.locator("#ENV03").is_visible()
    assert "of 3 shown" in page.locator(".filters output").text_content()


def test_deep_link_opens_what_is_folded(page_of: Any) -> None:
    page = page_of(fragment="#HANG04")
    assert page.locator("#HANG04 pre").is_visible()
    assert page.locator("#HANG04").evaluate("e => e.matches(':target')")


def test_copy_button(page_of: Any) -> None:
    page = page_of(permissions=["clipboard-read", "clipboard-write"])
    page.locator("ol.steps button").first.click()
    page.wait_for_function("document.querySelector('ol.steps button').textContent === 'Copied'")
    assert page.evaluate("navigator.clipboard.readText()").startswith("py-spy dump --pid 1007")


@pytest.mark.parametrize("width", [320, 390, 768])
def test_phone_does_not_scroll_sideways(page_of: Any, width: int) -> None:
    page = page_of(viewport={"width": width, "height": 700})
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_thousand_ranks(page_of: Any) -> None:
    page = page_of(size=1024)
    cells = page.locator("#ranks use")
    assert cells.count() == 1024
    cells.last.click()
    assert "rank 1023: named as the cause" in page.locator(".pick").text_content()
    page.locator(".grid").focus()
    page.keyboard.press("ArrowLeft")
    assert "rank 1022: affected" in page.locator(".pick").text_content()
    assert page.complaints == []


def test_print_shows_everything(page_of: Any) -> None:
    page = page_of()
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("#HANG04 pre").is_visible()
    assert not page.locator("button").first.is_visible()
    assert not page.locator(".filters").is_visible()
    assert len(page.pdf(format="A4")) > 10_000


@pytest.mark.parametrize(("size", "scheme"), [(8, "light"), (8, "dark"), (1024, "light")])
def test_axe_finds_no_serious_violation(page_of: Any, scheme: str, size: int) -> None:
    axe = os.environ.get("AXE_PATH")
    if not axe or not Path(axe).is_file():
        pytest.skip("AXE_PATH does not name axe-core's script; .ci/browser installs it")
    page = page_of(size=size, color_scheme=scheme, bypass_csp=True)
    page.evaluate("for (const d of document.querySelectorAll('details')) d.open = true")
    page.evaluate(Path(axe).read_text(encoding="utf-8"))
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    told = [
        f"{v['id']}: {v['nodes'][0]['html'][:200]} {v['nodes'][0].get('failureSummary', '')[:300]}"
        for v in found
        if v["impact"] in ("serious", "critical")
    ]
    assert told == []
