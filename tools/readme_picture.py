"""Draw docs/front_door.png, the moving picture of the README: the front door as the app shows it.

    uv run --with pillow python tools/readme_picture.py

Needs Pillow, and what the browser tests need: Voila, Playwright and the Chromium of
tools/ensure_chromium.sh. Where pictures do not move, the first one is seen: the answers.
"""

import io
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.app_server import RunningApp  # noqa: E402 - the folder is known only now
from tests.browser.conftest import browser_path  # noqa: E402
from workbench.door.explanations import VIEWS  # noqa: E402

PICTURE = ROOT / "docs" / "front_door.png"
COMMAND = (
    "vllm serve Qwen/Qwen3-Next-80B-A3B-Instruct --tensor-parallel-size 4 --kv-cache-dtype fp8 "
    "--enable-prefix-caching --max-model-len 32768"
)
SIZE = {"width": 1280, "height": 900}
FRAME_MS = 2_500
TURNS = 2
"""Then it stops: what moves for ever cannot be read past."""
LARGEST_BYTES = 600_000


def main() -> None:
    """Start the app, paste a command, take the picture, and end both."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        app = RunningApp(Path(folder))
        browser = playwright.chromium.launch(executable_path=browser_path(), args=["--no-sandbox"])
        try:
            page = browser.new_page(viewport=SIZE, color_scheme="light")
            page.set_default_timeout(60_000)
            page.goto(app.address, wait_until="commit")
            paste(page)
            save([picture(page, view) for view in VIEWS if view != "copy"])
        finally:
            browser.close()
            app.close()
    size = PICTURE.stat().st_size
    if size > LARGEST_BYTES:
        sys.exit(f"{PICTURE} has {size:,} bytes, {LARGEST_BYTES:,} are allowed")


def picture(page: Page, view: str) -> Image.Image:
    """Return the front door with one of its views opened."""
    page.locator(f'[role="tab"][data-arg="{view}"]').click()
    page.wait_for_timeout(1_500)
    page.mouse.move(0, 0)
    door = page.locator(".wb-door").first.bounding_box()
    assert door is not None
    taken = page.screenshot(clip={**door, "height": min(door["height"], SIZE["height"])})
    return Image.open(io.BytesIO(taken))


def save(frames: list[Image.Image]) -> None:
    """Write one PNG that shows them in turn, as large as the largest, in 256 colours."""
    width, height = (max(one.size[axis] for one in frames) for axis in (0, 1))
    whole = []
    for one in frames:
        sheet = Image.new("RGB", (width, height), "white")
        sheet.paste(one)
        whole.append(sheet)
    colours = whole[0].quantize(256)
    first, *others = [one.quantize(palette=colours, dither=Image.Dither.NONE) for one in whole]
    first.save(
        PICTURE, save_all=True, append_images=others, duration=FRAME_MS, loop=TURNS, optimize=True
    )


def paste(page: Page) -> None:
    """Choose a device, give the command to the box on top, and wait for the answers."""
    page.locator(".wb-door .wb-tile").first.wait_for()
    page.locator('[data-chip="device"] > button').click()
    page.locator('[data-key="chip-device"]').select_option(value='"H100"')
    page.keyboard.press("Escape")
    page.locator('[data-key="omnibox"]').fill(COMMAND)
    page.locator('[data-key="submit"]').click()
    page.locator(".wb-door", has_text="qwen3-next-80b-a3b").first.wait_for()
    page.wait_for_timeout(3_000)  # the cards of what to do next come last


if __name__ == "__main__":
    main()
