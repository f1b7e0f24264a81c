"""A real Chromium, without a window, driven through its debugging pipe; nothing is installed for it."""

from __future__ import annotations

import base64
import fcntl
import itertools
import json
import os
import select
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

#: How a browser is called; `SPACEARM_CHROMIUM` names another.
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
ADVICE = (
    "NOT RUN: no Chromium on this machine, so no page was opened in a browser. Install chromium or google-chrome, or "
    "set SPACEARM_CHROMIUM to one."
)
_FLAGS = (
    "--headless --no-sandbox --use-angle=swiftshader --enable-unsafe-swiftshader --no-first-run --hide-scrollbars "
    "--disable-background-networking --disable-component-update --disable-sync --disable-default-apps --mute-audio "
    "--remote-debugging-pipe"
)
PATIENCE = 60.0
#: Shares of the canvas's pixels that are not the ground's, and their mean colour: what a reader sees.
LOOK = """(() => {
  const element = document.querySelector("spacearm-scene"); element.paint();
  const canvas = element.shadowRoot.querySelector("canvas.gl"), copy = document.createElement("canvas");
  copy.width = canvas.width; copy.height = canvas.height;
  const pen = copy.getContext("2d"); pen.drawImage(canvas, 0, 0);
  const data = pen.getImageData(0, 0, copy.width, copy.height).data;
  const solid = []; let count = 0;
  for (let i = 3; i < data.length; i += 4) {
    const on = data[i] > 200;
    count += on;
    if (i % 64 === 3) solid.push(on ? data[i - 3] : -1);
  }
  return { share: count / (copy.width * copy.height), width: copy.width, height: copy.height, solid };
})()"""


def find() -> str | None:
    """Chromium's program, if there is one."""
    given = os.environ.get("SPACEARM_CHROMIUM")
    return given or next((found for name in NAMES if (found := shutil.which(name))), None)


class Browser:
    """One process; commands go in, answers and events come out, each ended by a zero byte."""

    def __init__(self, program: str, profile: Path) -> None:
        (theirs_in, self._to), (self._back, theirs_out) = os.pipe(), os.pipe()
        command = [program, *_FLAGS.split(), f"--user-data-dir={profile}", "about:blank"]
        inner, outer = (fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (theirs_in, theirs_out))
        silent = [(os.POSIX_SPAWN_OPEN, stream, os.devnull, os.O_WRONLY, 0) for stream in (1, 2)]
        moved = [(os.POSIX_SPAWN_DUP2, inner, 3), (os.POSIX_SPAWN_DUP2, outer, 4)]  # where its pipe must be
        self.process = os.posix_spawn(program, command, os.environ, file_actions=[*silent, *moved])
        for end in (theirs_in, theirs_out, inner, outer):
            os.close(end)
        self._rest, self._numbers = b"", itertools.count(1)
        self.events: list[dict[str, Any]] = []

    def close(self) -> None:
        os.kill(self.process, signal.SIGKILL)
        os.waitpid(self.process, 0)
        os.close(self._to)
        os.close(self._back)

    def command(self, method: str, session: str = "", **parameters: Any) -> dict[str, Any]:
        """What Chromium answers."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters} | ({"sessionId": session} if session else {})
        os.write(self._to, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + PATIENCE
        while True:
            answer = self._message(deadline - time.monotonic())
            assert answer is not None, f"Chromium does not answer {method}"
            if answer.get("id") == number:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result
            self.events.append(answer)

    def listen(self, seconds: float) -> None:
        """Take in events for so long."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0.0 and (event := self._message(left)) is not None:
            self.events.append(event)

    def _message(self, seconds: float) -> dict[str, Any] | None:
        deadline = time.monotonic() + seconds
        while b"\0" not in self._rest:
            if not select.select([self._back], [], [], max(deadline - time.monotonic(), 0.0))[0]:
                return None
            chunk = os.read(self._back, 1 << 20)
            assert chunk, "Chromium ended"
            self._rest += chunk
        text, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        return message


class Page:
    """A tab that shows a file."""

    def __init__(
        self, browser: Browser, file: Path, width: int = 1280, height: int = 800, *, dark: bool = False
    ) -> None:
        self.browser = browser
        target = browser.command("Target.createTarget", url="about:blank")["targetId"]
        self.session = browser.command("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.command(f"{domain}.enable")
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.command("Emulation.setEmulatedMedia", features=scheme)
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.command("Emulation.setDeviceMetricsOverride", **size)
        self.command("Page.navigate", url=file.resolve().as_uri())
        self.wait("document.readyState === 'complete'")

    def command(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self.browser.command(method, self.session, **parameters)

    def run(self, script: str) -> Any:
        """The value of an expression; a promise is waited for."""
        answer = self.command("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait(self, script: str) -> None:
        """Until an expression holds."""
        deadline = time.monotonic() + PATIENCE
        while not self.run(script):
            assert time.monotonic() < deadline, f"never: {script}"
            self.browser.listen(0.05)

    def screenshot(self) -> bytes:
        """PNG."""
        return base64.b64decode(self.command("Page.captureScreenshot")["data"])

    def faults(self) -> list[str]:
        """Errors on the console, exceptions that nobody caught."""
        self.browser.listen(0.2)
        found = []
        for event in self.browser.events:
            what, about = event.get("method"), event.get("params", {})
            if what == "Runtime.exceptionThrown":
                found.append(str(about["exceptionDetails"].get("exception", about["exceptionDetails"])))
            elif what == "Runtime.consoleAPICalled" and about["type"] in ("error", "assert"):
                found.append(str(about["args"]))
            elif what == "Log.entryAdded" and about["entry"]["level"] == "error":
                found.append(str(about["entry"]["text"]))
        return found

    def requests(self) -> list[str]:
        """What was asked for beyond this machine's own files."""
        urls = [
            event["params"]["request"]["url"]
            for event in self.browser.events
            if event.get("method") == "Network.requestWillBeSent"
        ]
        return [url for url in urls if not url.startswith(("file:", "data:", "about:", "blob:"))]


@contextmanager
def chromium(profile: Path) -> Iterator[Browser]:
    """A browser; where there is none the test says so and is skipped."""
    program = find()
    if program is None:
        pytest.skip(ADVICE)
    browser = Browser(program, profile)
    try:
        yield browser
    finally:
        browser.close()
