#!/usr/bin/env python3
"""Opens the page of `examples/watch.rs` in a real browser, and uses it.

    cargo build --example watch
    examples/watch/test_page.py target/debug/examples/watch
    examples/watch/test_page.py target/debug/examples/watch --picture examples/watch/watch.png

Needs what browser.py needs. Ends with 0 if all holds, with 1 if not, and with 3 where there is no browser.
"""

import sys

sys.dont_write_bytecode = True

import browser
from browser import ask, wait_for


class Page(browser.Page):
    height = 1160

    def number(self, name):
        text = self.run(f"return document.getElementById('c-{name}').textContent")
        return int("".join(filter(str.isdigit, text)) or "0")


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

    # What is shown adds up, at any moment.
    for _ in range(20):
        names = ["scheduled", "expired", "cancelled", "pending", "near", "far"]
        texts = page.run("return " + repr(names) + ".map(name => document.getElementById('c-' + name).textContent)")
        scheduled, expired, cancelled, pending, near, far = (int("".join(filter(str.isdigit, text))) for text in texts)
        assert scheduled == expired + cancelled + pending and pending == near + far, texts
    print("the numbers add up")

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
    """A full wheel: a burst that has been running for two seconds, and nothing later than the rounding to a tick."""
    page.do("url", url=address)
    for _ in range(8):
        page.click("[data-wheel='hashed']")
        wait_for("a new timer", lambda: page.number("expired") < 300)
        wait_for("the page shows a running timer", lambda: page.number("expired") > 300)
        page.click("[data-do='/burst']")
        wait_for("some of the burst has fired", lambda: page.number("expired") > 30_000)
        wait_for("the words tell of it", lambda: "fired" in page.run("return document.getElementById('says').textContent"))
        picture = page.picture()
        if not page.run("return document.querySelector('#late rect:nth-of-type(n + 5):not([height=\"0\"])')"):
            break
        print("other work on this machine made some timeouts late; once more")
    with open(path, "wb") as file:
        file.write(picture)


browser.main(Page, lambda program, _: [program, "--seconds", "120"], check, take_picture)
