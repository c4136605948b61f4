"""A page with everything on it, and one browser for all tests of this folder; skipped where there is none."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from launchbench.aggregate.decode import write_decode_tables
from launchbench.aggregate.lengths import write_lengths_tables
from launchbench.aggregate.pointers import write_pointers_tables
from launchbench.aggregate.write import write_tables
from launchbench.report.page import render
from tests.traced import untraced
from tests.unit.fabricate import CostModel, write_sweep
from tests.unit.fabricate_decode import write_decode_job
from tests.unit.fabricate_lengths import write_lengths_job
from tests.unit.fabricate_modes import write_modes
from tests.unit.fabricate_pointers import write_pointers_job

ROOT = Path(__file__).resolve().parents[2]
LABELS = ("h200", "t4", "a100", "h100")
COUNTS = (8, 64, 512, 4096)
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
WAIT_S = 60
"""For a browser that is starting on a machine with other work."""


@pytest.fixture(scope="session")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two cards with odd names, every extra job, gaps, published figures: with its figures as they are."""
    base = tmp_path_factory.mktemp("page")
    results = base / "results"
    odd = {"hostname": "<script>alert(1)</script>", "device_name": 'GPU "µ" <b>bold</b> ' + "x" * 200}
    write_modes(results, COUNTS, label="h200", **odd)
    write_sweep(results, COUNTS, label="t4", card=1, repetitions=2, model=CostModel(issue=12.0))
    for write in (write_pointers_job, write_lengths_job, write_decode_job):
        write(results, label="h200")
    shutil.copytree(ROOT / "results" / "published", results / "published")
    tables = base / "build" / "tables"
    with untraced():
        write_tables(results, tables, base / "build" / "cache", LABELS, COUNTS, [])
        for tabulate in (write_pointers_tables, write_lengths_tables, write_decode_tables):
            tabulate(results, tables)
        return render(tables, results, base / "reports", LABELS, COUNTS)


class Browser:
    """Headless Chromium that is told the size, the scheme and the medium of what it shows."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def show(self, page: Path, width: int = 1200, scheme: str = "light", anchor: str = "") -> None:
        """Load the page anew; whatever was logged before is gone."""
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self.command("Emulation.setDeviceMetricsOverride", size)
        self.command("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})
        self.driver.get("about:blank")
        self.log("browser")
        self.log("performance")
        self.driver.get(page.as_uri() + anchor)

    def command(self, name: str, parameters: Mapping[str, Any]) -> Any:
        return self.driver.execute_cdp_cmd(name, dict(parameters))

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def press(self, key: str, code: int, text: str = "") -> None:
        """Press a key, as a person does: the page cannot tell."""
        for kind in ("keyDown", "keyUp"):
            event = {"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text}
            self.command("Input.dispatchKeyEvent", event)

    def log(self, kind: str) -> list[dict[str, Any]]:
        return list(self.driver.get_log(kind))

    def requests(self) -> list[str]:
        """Addresses of everything that was fetched since the page was loaded, the page included."""
        messages = [json.loads(entry["message"])["message"] for entry in self.log("performance")]
        sent = [one["params"]["request"]["url"] for one in messages if one["method"] == "Network.requestWillBeSent"]
        return [url for url in sent if not url.startswith("data:")]


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    driver_program = shutil.which("chromedriver")
    if not program or not driver_program:
        lacking = "no chromium" if not program else "no chromedriver"
        pytest.skip(f"{lacking} on this machine (Debian: apt-get install chromium chromium-driver)")
    selenium = pytest.importorskip("selenium")
    webdriver = pytest.importorskip("selenium.webdriver")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    profile = tmp_path_factory.mktemp("profile")
    for flag in (
        "headless=new",
        "no-sandbox",  # which containers lack; it opens nothing but the page
        "disable-gpu",
        "disable-dev-shm-usage",
        "hide-scrollbars",
        "disable-background-networking",
        "disable-component-update",
        "no-first-run",
        f"user-data-dir={profile}",
    ):
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    # Named, so that selenium does not look for one on the network.
    service = webdriver.ChromeService(driver_program)
    try:
        driver = webdriver.Chrome(options=options, service=service)
    except selenium.common.WebDriverException as error:
        pytest.skip(f"chromium does not start here: {str(error).splitlines()[0]}")
    try:
        driver.set_page_load_timeout(WAIT_S)
        yield Browser(driver)
    finally:
        driver.quit()
