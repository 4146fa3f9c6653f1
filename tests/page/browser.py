"""A headless Chromium that takes commands over a pipe (the DevTools protocol): neither a port nor a
library is needed."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome")
PATIENCE_S = 60


def program():
    """The path of a Chromium, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One page of one browser. Commands and their answers alternate; messages that the page logs
    meanwhile are kept in `complaints`."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="lockagent-page-")
        hears, self.out = os.pipe()
        self.into, says = os.pipe()
        command = [
            *(program(), "--headless=new", "--remote-debugging-pipe", "--no-first-run"),
            *("--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"),
            *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
            *(["--no-sandbox"] if os.geteuid() == 0 else []),
            *(f"--user-data-dir={self.folder.name}", "about:blank"),
        ]
        # it reads commands from 3 and answers at 4
        wiring = f'exec 3<&{hears} 4>&{says}; exec "$@"'
        self.process = subprocess.Popen(
            ["bash", "-c", wiring, "bash", *command],
            pass_fds=(hears, says),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(hears)
        os.close(says)
        self.number, self.heard, self.complaints, self.session = 0, b"", [], None
        target = self.tell("Target.createTarget", url="about:blank")["targetId"]
        attached = self.tell("Target.attachToTarget", targetId=target, flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Accessibility"):
            self.tell(f"{domain}.enable")

    def message(self):
        until = time.monotonic() + PATIENCE_S
        while b"\0" not in self.heard:
            if not select.select([self.into], [], [], max(0, until - time.monotonic()))[0]:
                raise TimeoutError("the browser is silent")
            more = os.read(self.into, 1 << 20)
            if not more:
                raise ConnectionError("the browser has ended")
            self.heard += more
        text, self.heard = self.heard.split(b"\0", 1)
        return json.loads(text)

    def note(self, message):
        method, told = message.get("method"), message.get("params", {})
        if method == "Log.entryAdded":
            self.complaints.append(told["entry"]["text"])
        if method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(told["exceptionDetails"]))

    def tell(self, method, **params):
        self.number += 1
        command = {"id": self.number, "method": method, "params": params}
        if self.session:
            command["sessionId"] = self.session
        os.write(self.out, json.dumps(command).encode() + b"\0")
        while True:
            message = self.message()
            if message.get("id") == self.number:
                break
            self.note(message)
        if "error" in message:
            raise RuntimeError(f"{method}: {message['error']}")
        return message["result"]

    def run(self, script):
        """The value of the expression; a promise is waited for."""
        # the page's policy forbids eval to the page, not to its debugger
        said = self.tell(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in said:
            raise RuntimeError(f"{script}: {said['exceptionDetails']}")
        return said["result"].get("value")

    def open(self, url):
        self.tell("Page.navigate", url=url)
        self.until("document.readyState == 'complete' && location.href != 'about:blank'")

    def until(self, condition, seconds=PATIENCE_S):
        """True once the condition holds."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                if self.run(f"!!({condition})"):
                    return True
            except RuntimeError:
                pass  # the page is being replaced
            time.sleep(0.05)
        return False

    def look(self, width, height, dark=False, scripts=True):
        """Sets the size of the window, and the preferences of the person."""
        self.tell(
            "Emulation.setDeviceMetricsOverride",
            **{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600},
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.tell("Emulation.setEmulatedMedia", features=[scheme])
        self.tell("Emulation.setScriptExecutionDisabled", value=not scripts)

    def type(self, text):
        self.tell("Input.insertText", text=text)

    def press(self, key, code):
        text = {"text": "\r"} if key == "Enter" else {}  # by that a button is pressed
        for kind, more in (("keyDown", text), ("keyUp", {})):
            self.tell(
                "Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, **more
            )

    def picture(self, path):
        """The whole page as a PNG."""
        size = self.tell("Page.getLayoutMetrics")["cssContentSize"]
        shot = self.tell(
            "Page.captureScreenshot",
            format="png",
            captureBeyondViewport=True,
            clip={"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1},
        )
        with open(path, "wb") as file:
            file.write(base64.b64decode(shot["data"]))

    def close(self):
        os.close(self.out)  # it ends by that
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.into)
        self.folder.cleanup()
