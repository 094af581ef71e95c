"""A headless Chromium, and how tests look at a page in it. Skips where there is no Chromium."""

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

ARGUMENTS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
DEADLINE_S = 60.0


class Page:
    """A page in the browser. Each question waits for its answer until a deadline."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def open(self, address: str, view: str = "overview") -> None:
        """Load an address and wait for its data."""
        self.driver.get("about:blank")
        self.driver.get(address + "#" + view)
        self.until("document.documentElement.dataset.ready")

    def go(self, view: str) -> None:
        """Change the part after the #, as a link does."""
        self.js(f"location.hash = {view!r}")

    def js(self, expression: str) -> Any:
        """Return the value of an expression."""
        return self.driver.execute_script(f"return ({expression})")

    def until(self, expression: str, wanted: Callable[[Any], bool] = bool) -> Any:
        """Wait until an expression has a wanted value, and return it."""
        end = time.monotonic() + DEADLINE_S
        while time.monotonic() < end:
            found = self.js(expression)
            if wanted(found):
                return found
            time.sleep(0.05)
        raise AssertionError(f"{expression} is {found!r}; the console says {self.complaints()}")

    def text(self, selector: str = "main") -> str:
        """Wait for an element, and return its text as shown."""
        return str(self.until(f"document.querySelector({selector!r})?.innerText"))

    def texts(self, selector: str) -> list[str]:
        """Return the texts of all elements."""
        return list(self.js(f"[...document.querySelectorAll({selector!r})].map(e => e.innerText)"))

    def press(self, key: str) -> None:
        """Press a key where the focus is."""
        self.js(
            f"(document.activeElement || document.body).dispatchEvent("
            f"new KeyboardEvent('keydown', {{key: {key!r}, bubbles: true, cancelable: true}}))"
        )

    def type(self, selector: str, text: str) -> None:
        """Type into an input."""
        self.driver.find_element("css selector", selector).send_keys(text)

    def complaints(self) -> list[str]:
        """What the console has said since last asked: errors, and what the content policy refused."""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]

    def resize(self, width: int, height: int, *, dark: bool = False) -> None:
        """Set the size of the window and the preferred colours."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        colours = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": colours})


@contextmanager
def chromium(profile: Path) -> Iterator[Page]:
    """Start a browser with a fresh profile; skip the test if there is none."""
    webdriver = pytest.importorskip("selenium.webdriver")
    service = pytest.importorskip("selenium.webdriver.chrome.service")
    binary = shutil.which("chromium") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if binary is None or driver is None:
        pytest.skip("no Chromium: needs `chromium` and `chromedriver` (Debian: chromium, chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    for argument in (*ARGUMENTS, f"--user-data-dir={profile}"):
        options.add_argument(argument)
    started = webdriver.Chrome(options=options, service=service.Service(driver))
    try:
        page = Page(started)
        page.resize(1440, 900)
        yield page
    finally:
        started.quit()
