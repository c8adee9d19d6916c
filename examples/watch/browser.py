"""A real browser for the tests of pages: Chromium, driven by WebDriver, which is JSON over HTTP.

Needs Chromium and its driver (Debian: chromium, chromium-driver) and Python's standard library. Used by examples/watch/test_page.py and
durable/service/tests/page.py.
"""

import base64
import json
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

FLAGS = [
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
    "--hide-scrollbars", "--force-device-scale-factor=1",
]
PATIENCE = 30  # seconds, for whatever is waited for
LOOPBACK = urllib.request.build_opener(urllib.request.ProxyHandler({}))
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"


def ask(url, body=None, method=None):
    """An HTTP request with or without JSON; what comes back."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
    try:
        with LOOPBACK.open(request, timeout=60) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        raise RuntimeError(f"{url}: {error.read().decode()[:600]}") from None


def first_line(process, words):
    """The first line a program prints that has `words` in it."""
    for line in process.stdout:
        if words in line:
            return line
    raise RuntimeError(f"{process.args[0]} ended without saying `{words}`")


def wait_for(what, holds):
    """Repeats `holds` until it is true, and returns that."""
    until = time.monotonic() + PATIENCE
    while True:
        found = holds()
        if found:
            return found
        assert time.monotonic() < until, f"not within {PATIENCE} s: {what}"
        time.sleep(0.1)


class Page:
    """A browser with one page."""

    height = 900

    def __init__(self, driver, profile):
        options = {"args": FLAGS + [f"--user-data-dir={profile}", f"--window-size=1120,{self.height}"]}
        options["binary"] = shutil.which("chromium")
        wanted = {"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        made = ask(f"{driver}/session", {"capabilities": {"alwaysMatch": wanted}})
        self.at = f"{driver}/session/{made['value']['sessionId']}"

    def do(self, command, **parameters):
        return ask(f"{self.at}/{command}", parameters)["value"]

    def run(self, script, *args):
        return self.do("execute/sync", script=script, args=list(args))

    def find(self, selector):
        return self.do("element", using="css selector", value=selector)[ELEMENT]

    def click(self, selector):
        self.do(f"element/{self.find(selector)}/click")

    def picture(self):
        """The page as PNG."""
        return base64.b64decode(ask(f"{self.at}/screenshot")["value"])

    def complaints(self):
        return [line["message"] for line in self.do("se/log", type="browser")]

    def close(self):
        ask(self.at, method="DELETE")


def main(page_class, command, check, take_picture):
    """The program of a test: starts what `command` makes of the program's name and a folder, and the browser, and calls `check(page, address)`, or
    `take_picture(page, address, path)`. Ends with 0 if all holds, with 1 if not, and with 3 where there is no browser."""
    arguments = sys.argv[1:]
    if len(arguments) not in (1, 3) or (len(arguments) == 3 and arguments[1] != "--picture"):
        sys.exit(f"usage: {sys.argv[0]} PROGRAM [--picture FILE]")
    for needed in ["chromium", "chromedriver"]:
        if not shutil.which(needed):
            print(f"{needed} is not installed: the page is not tested in a browser")
            sys.exit(3)
    processes = []
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        try:
            for program in [command(arguments[0], folder), ["chromedriver", "--port=0"]]:
                processes.append(subprocess.Popen(program, stdout=subprocess.PIPE, text=True))
            address = first_line(processes[0], "open http").split()[1]
            port = first_line(processes[1], "successfully on port ").split("on port ")[1].strip(" .\n")
            page = page_class(f"http://127.0.0.1:{port}", f"{folder}/profile")
            try:
                if len(arguments) == 3:
                    take_picture(page, address, arguments[2])
                else:
                    check(page, address)
            finally:
                page.close()
        except (AssertionError, RuntimeError, OSError) as error:
            sys.exit(f"FAILED: {error}")
        finally:
            for process in processes:
                process.kill()
                process.wait()
