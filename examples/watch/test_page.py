#!/usr/bin/env python3
"""Opens the page of `examples/watch.rs` in a real browser, and uses it.

    cargo build --example watch
    examples/watch/test_page.py target/debug/examples/watch
    examples/watch/test_page.py target/debug/examples/watch --picture examples/watch/watch.png

Needs Chromium and its driver (Debian: chromium, chromium-driver) and Python's standard library: WebDriver is JSON over
HTTP. Ends with 0 if all holds, with 1 if not, and with 3 where there is no browser.
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

    def __init__(self, driver, profile):
        options = {"args": FLAGS + [f"--user-data-dir={profile}", "--window-size=1120,1120"]}
        options["binary"] = shutil.which("chromium")
        wanted = {"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        made = ask(f"{driver}/session", {"capabilities": {"alwaysMatch": wanted}})
        self.at = f"{driver}/session/{made['value']['sessionId']}"

    def do(self, command, **parameters):
        return ask(f"{self.at}/{command}", parameters)["value"]

    def run(self, script):
        return self.do("execute/sync", script=script, args=[])

    def click(self, selector):
        found = self.do("element", using="css selector", value=selector)
        self.do(f"element/{found[ELEMENT]}/click")

    def number(self, name):
        return int("".join(filter(str.isdigit, self.run(f"return document.getElementById('c-{name}').textContent")) or "0"))

    def picture(self):
        """The whole page as PNG."""
        return base64.b64decode(ask(f"{self.at}/screenshot")["value"])

    def complaints(self):
        return [line["message"] for line in self.do("se/log", type="browser")]

    def close(self):
        ask(self.at, method="DELETE")


def check(page, address):
    page.do("url", url=address)
    wait_for("the page shows a running timer", lambda: page.number("scheduled") > 0)

    # What it shows lies between two answers of the program, for everything that only grows.
    for _ in range(5):
        names = ["scheduled", "expired", "cancelled", "wakeups", "bucket_visits"]
        before = ask(f"{address}state")
        wait_for("a later picture", lambda: page.number("scheduled") > before["scheduled"])
        shown = {name: page.number(name) for name in names}
        after = ask(f"{address}state")
        for name in names:
            assert before[name] <= shown[name] <= after[name], f"{name}: {before[name]}, {shown[name]}, {after[name]}"
    print(f"the numbers are those of the timer: {shown}")

    ring = "return document.getElementById('picture').innerHTML"
    hand = "return document.querySelector('#picture [transform]').getAttribute('transform')"
    pixels, drawn, place, scheduled = page.picture(), page.run(ring), page.run(hand), page.number("scheduled")
    page.click("[data-do='/burst']")
    wait_for("the burst is counted", lambda: page.number("scheduled") >= scheduled + 100_000)
    wait_for("the burst is told", lambda: "100000 scheduled" in page.run("return document.getElementById('done').textContent"))
    assert page.run(ring) != drawn, "the ring is drawn as before the burst"
    assert page.picture() != pixels, "the page looks as before the burst"
    wait_for("the hand moves", lambda: page.run(hand) != place)
    print("a burst moves the numbers, the ring and the hand")

    page.click("[data-do='/slow']")
    blocked = "return document.querySelector('#says.blocked')?.textContent"
    said = wait_for("a blocked timer thread is told", lambda: page.run(blocked))
    assert "timer thread is blocked" in said, said
    wait_for("the block is over", lambda: not page.run(blocked))
    print("a slow task is told, and its end")

    page.click("[data-do='/cancel']")
    wait_for("everything is cancelled", lambda: page.number("pending") < 50_000)
    page.click("[data-wheel='hierarchical']")
    wait_for("levels", lambda: page.run("return document.querySelectorAll('#picture text').length == 5"))
    wait_for("entries move down", lambda: page.number("cascaded") > 0)
    page.click("[data-wheel='hashed']")
    page.run("const tick = document.getElementById('tick'); tick.value = 2; tick.dispatchEvent(new Event('change'))")
    wait_for("another tick", lambda: ask(f"{address}state")["tick_ms"] == 20)
    wait_for("a ring again", lambda: page.run("return document.querySelectorAll('#picture text').length == 9"))
    print("wheels and ticks can be exchanged")

    complaints = page.complaints()
    assert not complaints, f"the console says: {complaints}"
    print("nothing in the console")


def take_picture(page, address, path):
    """A full wheel: a burst that has been running for two seconds."""
    page.do("url", url=address)
    wait_for("the page shows a running timer", lambda: page.number("expired") > 300)
    page.click("[data-do='/burst']")
    wait_for("some of the burst has fired", lambda: page.number("expired") > 30_000)
    wait_for("the words tell of it", lambda: "fired" in page.run("return document.getElementById('says').textContent"))
    with open(path, "wb") as file:
        file.write(page.picture())


def main():
    arguments = sys.argv[1:]
    if len(arguments) not in (1, 3) or (len(arguments) == 3 and arguments[1] != "--picture"):
        sys.exit("usage: test_page.py PROGRAM [--picture FILE]")
    for needed in ["chromium", "chromedriver"]:
        if not shutil.which(needed):
            print(f"{needed} is not installed: the page is not tested in a browser")
            sys.exit(3)
    processes = []
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        try:
            for command in [[arguments[0], "--seconds", "120"], ["chromedriver", "--port=0"]]:
                processes.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
            address = first_line(processes[0], "open http").split()[1]
            port = first_line(processes[1], "successfully on port ").split("on port ")[1].strip(" .\n")
            page = Page(f"http://127.0.0.1:{port}", profile)
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


main()
