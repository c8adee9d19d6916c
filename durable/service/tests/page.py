#!/usr/bin/env python3
"""Opens the page of the delay queue in a real browser, and uses it.

    cargo build -p delay-queue-service
    durable/service/tests/page.py target/debug/delay-queue-service
    durable/service/tests/page.py target/debug/delay-queue-service --picture durable/service/page.png

Needs what examples/watch/browser.py needs. Ends with 0 if all holds, with 1 if not, and with 3 where there is no browser.
"""

import http.server
import json
import pathlib
import sys
import threading
import time
import urllib.request

sys.dont_write_bytecode = True
sys.path.append(str(pathlib.Path(__file__).resolve().parents[3] / "examples" / "watch"))

import browser
from browser import wait_for


class Receiver(http.server.BaseHTTPRequestHandler):
    """Receives the calls; fails at /broken until it is mended."""

    calls = []
    mended = False

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        Receiver.calls.append((self.path, self.headers["delay-queue-key"], json.loads(body)))
        self.send_response(500 if self.path == "/broken" and not Receiver.mended else 200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_GET(self):
        body = f'<iframe src="{self.path.partition("?")[2]}"></iframe>'.encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def post(address, callback, delay, key):
    """Posts a job as a program does."""
    body = json.dumps({"callback": callback, "delay_ms": delay, "key": key}).encode()
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {TOKEN}"}
    with browser.LOOPBACK.open(urllib.request.Request(f"{address}jobs", body, headers), timeout=60) as answer:
        assert answer.status == 201


class Page(browser.Page):
    height = 1020

    def type(self, selector, text):
        found = self.find(selector)
        self.do(f"element/{found}/clear")
        self.do(f"element/{found}/value", text=text)

    def text(self, selector):
        return self.run("return document.querySelector(arguments[0])?.innerText ?? ''", selector)

    def visible(self, selector):
        return self.run("return document.querySelector(arguments[0]).offsetParent !== null", selector)

    def rows(self, table):
        """The visible text of each row, by key."""
        rows = self.run("return [...document.querySelectorAll(arguments[0] + ' tbody tr')].map(row => [...row.cells].map(cell => cell.innerText))", f"#{table}")
        return {row[0]: row for row in rows}

    def schedule(self, callback, delay, key, payload=None):
        self.type("[name=callback]", callback)
        self.type("[name=delay]", str(delay))
        self.type("[name=key]", key)
        if payload is not None:
            self.type("[name=payload]", payload)
        self.click("#new button")

    def search(self, table, text):
        self.type(f"#{table}-search input", text)
        self.click(f"#{table}-search button")

    def dark(self, yes):
        emulation = {"features": [{"name": "prefers-color-scheme", "value": "dark" if yes else "light"}]}
        self.do("goog/cdp/execute", cmd="Emulation.setEmulatedMedia", params=emulation)


TOKEN = "a-token-for-the-page-0123456789"


def log_in(page, address):
    page.do("url", url=address)
    wait_for("a token is asked for", lambda: page.visible("#login-title"))
    assert not page.visible("#pending-title"), "the jobs are shown before the login"
    page.type("[name=token]", TOKEN)
    page.click("#login-form button")


def check(page, address, receiver):
    page.do("url", url=address)
    wait_for("a token is asked for", lambda: page.visible("#login-title"))
    page.type("[name=token]", "wrong-token-0123456789")
    page.click("#login-form button")
    wait_for("a wrong token is told", lambda: "not known" in page.text("#login-said"))
    log_in(page, address)
    wait_for("the page is connected", lambda: page.text("#link") == "connected")
    assert page.text("#pending-empty") and page.text("#dead-empty")

    # What is scheduled on the page is listed, in the order of due times, and nothing in it is taken for HTML.
    page.schedule(f"{receiver}/ok", 3000, "later", '{"text": "<b>bold</b>"}')
    wait_for("the first job is listed", lambda: "later" in page.rows("pending"))
    page.schedule(f"{receiver}/ok", 2000, "sooner<i>")
    wait_for("two jobs in their order", lambda: list(page.rows("pending")) == ["sooner<i>", "later"])
    assert "<b>bold</b>" in page.rows("pending")["later"][3], page.rows("pending")
    assert page.text("#pending-count") == "2"
    counted = page.rows("pending")["later"][1]
    wait_for("the time counts down", lambda: page.rows("pending")["later"][1] != counted)
    print("jobs are scheduled, listed and counted down")

    # A mistake is told, and nothing is made.
    page.schedule("http://192.0.2.1/", 5, "refused")
    wait_for("the refusal is told", lambda: "is not allowed" in page.text("#said.bad"))
    page.schedule(f"{receiver}/ok", 5, "later", '"another"')
    wait_for("the conflict is told", lambda: "waits under" in page.text("#said.bad"))
    page.schedule(f"{receiver}/ok", 5, "odd", "{")
    wait_for("a payload that is no JSON is told", lambda: "no JSON" in page.text("#said.bad"))
    assert list(page.rows("pending")) == ["sooner<i>", "later"]
    print("mistakes are told")

    # A job is moved to now and called; the form survives the page's looking again.
    page.click("[aria-label='Move later']")
    time.sleep(1.5)
    page.type("[aria-label='Seconds from now for later']", "0")
    page.click("#pending td.do form button")
    wait_for("the moved job is called", lambda: any(key == "later" for _, key, _ in Receiver.calls))
    wait_for("it is gone from the page", lambda: "later" not in page.rows("pending"))
    assert Receiver.calls[0][2] == {"text": "<b>bold</b>"}, Receiver.calls
    page.click("[aria-label='Cancel sooner<i>']")
    wait_for("the cancelled one is gone", lambda: page.text("#pending-empty"))
    print("jobs are moved and cancelled")

    # A failure becomes a dead letter. One is discarded, the other works when it is revived.
    for key in ["a", "b"]:
        page.schedule(f"{receiver}/broken", 0, key, "1")
        wait_for("it has failed", lambda key=key: key in page.rows("dead"))
    assert "500" in page.rows("dead")["a"][3], page.rows("dead")
    assert page.text("#dead-count") == "2"
    page.click("[aria-label='Discard b']")
    wait_for("the discarded one is gone", lambda: list(page.rows("dead")) == ["a"])
    Receiver.mended = True
    page.click("[aria-label='Revive a']")
    wait_for("the revived one is gone", lambda: page.text("#dead-empty"))
    wait_for("and was called", lambda: sum(key == "a" for _, key, _ in Receiver.calls) == 2)
    print("dead letters are shown, revived and discarded")

    # Many at once: found, in pages, revived and discarded together.
    for number in range(120):
        post(address, f"{receiver}/ok", 3_600_000, f"{'red' if number % 2 else 'blue'}:{number}")
    wait_for("the first page", lambda: len(page.rows("pending")) == 100 and page.text("#pending-count") == "120")
    page.click("#pending-pages .next")
    wait_for("a page by number", lambda: "after number 0" in page.text("#pending-pages"))
    page.click("#pending-pages .next")
    wait_for("the last page", lambda: len(page.rows("pending")) == 20)
    page.click("#pending-pages .first")
    page.search("pending", "red:1")
    wait_for("what was searched", lambda: page.rows("pending") and all(key.startswith("red:1") for key in page.rows("pending")))
    page.search("pending", "")
    wait_for("all again", lambda: len(page.rows("pending")) == 100)
    Receiver.mended = False
    for number in range(10):
        post(address, f"{receiver}/broken", 0, f"{'red' if number % 2 else 'blue'}:dead:{number}")
    wait_for("all have failed", lambda: page.text("#dead-count") == "10")
    page.search("dead", "red:")
    wait_for("what was searched among the dead", lambda: len(page.rows("dead")) == 5)
    page.click("#discard-all")
    wait_for("it asks again", lambda: page.text("#discard-all") == "Sure?")
    page.click("#discard-all")
    wait_for("they are discarded", lambda: "5 are discarded" in page.text("#said"))
    page.search("dead", "")
    wait_for("the others are there", lambda: len(page.rows("dead")) == 5 and all(key.startswith("blue") for key in page.rows("dead")))
    Receiver.mended = True
    page.click("#revive-all")
    page.click("#revive-all")
    wait_for("they are revived and called", lambda: page.text("#dead-empty") and "5 are tried again" in page.text("#said"))
    print("many at once: pages, search, revive and discard")

    light = page.run("return getComputedStyle(document.body).backgroundColor")
    page.dark(True)
    wait_for("another colour in the dark", lambda: page.run("return getComputedStyle(document.body).backgroundColor") != light)
    page.dark(False)
    wide = page.run("return document.documentElement.scrollWidth > innerWidth")
    assert not wide, "the page is wider than its window"
    print("light and dark")

    # The browser itself notes every refused request: those were meant.
    complaints = [line for line in page.complaints() if "Failed to load resource" not in line]
    assert not complaints, f"the console says: {complaints}"
    print("nothing in the console")

    # Another page may not hold this one in a frame.
    page.do("url", url=f"{receiver}/frame?{address}")
    time.sleep(1)
    framed = page.run("try { return document.querySelector('iframe').contentDocument?.body?.innerText ?? 'closed' } catch { return 'closed' }")
    assert framed in ("", "closed"), framed
    refused = [line for line in page.complaints() if "frame-ancestors" in line or "frame" in line.lower()]
    assert refused, "the frame was not refused"
    page.do("url", url=address)
    wait_for("still logged in", lambda: page.text("#link") == "connected")
    page.click("#logout")
    wait_for("logged out", lambda: page.visible("#login-title") and not page.visible("#pending-title"))
    print("no frame; logged out")


def take_picture(page, address, receiver, path):
    log_in(page, address)
    wait_for("the page is connected", lambda: page.text("#link") == "connected")
    for key, seconds in [("order:1841", 42), ("order:1842", 611), ("trial:77", 86400 * 3), ("session:9f", 1790)]:
        page.schedule(f"{receiver}/close", seconds, key, json.dumps({"close": key}))
        wait_for("it is listed", lambda key=key: key in page.rows("pending"))
    page.schedule(f"{receiver}/broken", 0, "mail:12", '{"to": "user 12"}')
    wait_for("it has failed", lambda: "mail:12" in page.rows("dead"))
    page.type("[name=callback]", f"{receiver}/hook")
    for dark in [False, True]:
        page.dark(dark)
        time.sleep(0.3)
        with open(path.replace(".png", "-dark.png") if dark else path, "wb") as file:
            file.write(page.picture())


def command(program, folder):
    with open(f"{folder}/tokens", "w") as file:
        file.write(TOKEN)
    return [program, "--token-file", f"{folder}/tokens", "--rate", "1000", "--listen", "127.0.0.1:0", "--file", f"{folder}/jobs.redb", "--attempts", "1",
            "--allow-host", "127.0.0.1", "--log", "error"]


def main():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    receiver = f"http://127.0.0.1:{server.server_port}"
    browser.main(Page, command, lambda page, address: check(page, address, receiver),
                 lambda page, address, path: take_picture(page, address, receiver, path))


main()
