"""
A real Chromium, headless, spoken to over a pipe in its own protocol: nothing listens, and nothing
is installed for it.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PATIENCE = 30.0  # seconds for anything to become true
FLAGS = (
    "--headless=new",
    "--no-sandbox",  # root may not have one
    "--remote-debugging-pipe",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-gpu",
    "--disable-sync",
    "--hide-scrollbars",
    "--mute-audio",
)


def found() -> str | None:
    """The browser's program; FENCEPOST_BROWSER may name it."""
    named = os.environ.get("FENCEPOST_BROWSER")
    return named or next(filter(None, map(shutil.which, NAMES)), None)


# The browser reads on 3 and writes on 4.
LAUNCH = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.dup2(int(sys.argv[2]), 4)
os.execvp(sys.argv[3], sys.argv[3:])
"""


class Broken(AssertionError):
    """The page threw something."""


class Browser:
    """One page of one browser. `complaints`: what its console and its policy said of errors."""

    def __init__(self, folder: Path, program: str) -> None:
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        theirs = [fcntl.fcntl(one, fcntl.F_DUPFD_CLOEXEC, 10) for one in (theirs_in, theirs_out)]
        arguments = [*FLAGS, f"--user-data-dir={folder}", "about:blank"]
        self._process = subprocess.Popen(
            [sys.executable, "-S", "-c", LAUNCH, *map(str, theirs), program, *arguments],
            pass_fds=theirs,
            env={name: value for name, value in os.environ.items() if name != "LD_PRELOAD"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for one in (theirs_in, theirs_out, *theirs):
            os.close(one)
        self._number, self._rest = 0, b""
        self._session: str | None = None
        self.complaints: list[str] = []
        (target,) = [
            one for one in self._send("Target.getTargets")["targetInfos"] if one["type"] == "page"
        ]
        attached = self._send("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self._send(f"{domain}.enable")

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(30)
        os.close(self._in)
        os.close(self._out)

    # ---- the protocol ----------------------------------------------------------------------------

    def _send(self, method: str, **params: Any) -> Any:
        self._number += 1
        asked: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session:
            asked["sessionId"] = self._session
        os.write(self._out, json.dumps(asked).encode() + b"\0")
        while (told := self._read()).get("id") != self._number:
            self._note(told)
        if "error" in told:
            raise Broken(told["error"]["message"])
        return told["result"]

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            more = os.read(self._in, 1 << 20)
            assert more, "the browser has gone"
            self._rest += more
        one, _, self._rest = self._rest.partition(b"\0")
        told: dict[str, Any] = json.loads(one)
        return told

    def _note(self, told: dict[str, Any]) -> None:
        params = told.get("params", {})
        if told.get("method") == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.complaints.append(details.get("exception", {}).get("description", str(details)))
        elif told.get("method") == "Log.entryAdded" and params["entry"]["level"] == "error":
            entry = params["entry"]
            self.complaints.append(f"{entry['text']} {entry.get('url', '')}")
        elif told.get("method") == "Page.javascriptDialogOpening":
            self.complaints.append(f"a dialog of a script: {params['message']}")

    # ---- hands and eyes --------------------------------------------------------------------------

    def shape(self, width: int, height: int, *, dark: bool = False, scale: float = 1) -> None:
        """The window's size, and what its system prefers."""
        self._send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=scale,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._send("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, url: str) -> None:
        self._send("Page.navigate", url=url)

    def js(self, expression: str) -> Any:
        """What the expression is, in the page; a promise is waited for."""
        told = self._send(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in told:
            details = told["exceptionDetails"]
            raise Broken(details.get("exception", {}).get("description", details["text"]))
        return told["result"].get("value")

    def until(self, expression: str) -> None:
        """Until the expression is true."""
        self._until(lambda: self.js(f"Boolean({expression})"), expression)

    def until_text(self, words: str, selector: str = "body") -> None:
        self._until(lambda: words in self.text(selector), f"{words!r} in {selector}")

    def _until(self, fact: Callable[[], object], words: str) -> None:
        end = time.monotonic() + PATIENCE
        while not fact():
            assert time.monotonic() < end, f"never: {words}; {self.complaints}"
            time.sleep(0.02)

    def text(self, selector: str = "body") -> str:
        told: str = self.js(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''")
        return told

    def click(self, words: str, within: str = "body") -> None:
        """The button, link or box that says so, as soon as it is there and may be pressed."""
        pressed = f"{within} :is(button, a, label)"
        self.until(
            f"""(() => {{
              const all = document.querySelectorAll({json.dumps(pressed)});
              const one = [...all].find((e) => e.textContent.trim() === {json.dumps(words)}
                && !e.disabled && e.checkVisibility());
              one?.click();
              return one !== undefined;
            }})()"""
        )

    def press(self, key: str) -> None:
        for kind in ("keyDown", "keyUp"):
            text = {"text": key} if len(key) == 1 and kind == "keyDown" else {}
            self._send("Input.dispatchKeyEvent", type=kind, key=key, code=key, **text)

    def fill(self, selector: str, value: str) -> None:
        self.js(
            f"""(() => {{
              const one = document.querySelector({json.dumps(selector)});
              one.value = {json.dumps(value)};
              one.dispatchEvent(new Event("change"));
            }})()"""
        )

    def picture(self, path: Path, *, whole: bool = False) -> None:
        told = self._send("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(told["data"]))
