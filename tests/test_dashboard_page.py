"""The dashboard's page in a real browser: what a person sees, presses, and is not hurt by."""

from __future__ import annotations

import json
import shutil
import socket
import threading
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

pytest.importorskip("starlette")
pytest.importorskip("httpx")
pytest.importorskip("uvicorn")

import uvicorn
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fencepost
from fencepost import dashboard
from harness_browser import Browser, found
from harness_dashboard import dead, fill
from harness_web import TOKEN

PROGRAM = found()

pytestmark = pytest.mark.skipif(
    PROGRAM is None, reason="there is no Chromium: install one, or name it in FENCEPOST_BROWSER"
)

Serve = Callable[..., str]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    assert PROGRAM is not None
    one = Browser(tmp_path_factory.mktemp("browser"), PROGRAM)
    yield one
    one.close()


@pytest.fixture
def serve() -> Iterator[Serve]:
    """The dashboard of a file, which may do what is named; its address, with the token."""
    with ExitStack() as closing:
        yield lambda path, *allow: closing.enter_context(served(path, allow))


@pytest.fixture
def page(browser: Browser, serve: Serve) -> Iterator[Browser]:
    """Wide and light; left before its server. What its console complained of fails the test."""
    browser.shape(1280, 900)
    yield browser
    browser.open("about:blank")
    browser.until("location.href === 'about:blank'")
    complaints, browser.complaints = browser.complaints, []
    assert complaints == []


@contextmanager
def served(path: Path, allow: Sequence[str]) -> Iterator[str]:
    app = dashboard.app(path, allow=allow, token=TOKEN)
    config = uvicorn.Config(app, log_level="warning", lifespan="off")
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/#token={TOKEN}"
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """To be copied."""
    path = tmp_path_factory.mktemp("shop") / "shop.db"
    fill(path)
    return path


@pytest.fixture
def shop(filled: Path, path: Path) -> Path:
    shutil.copy(filled, path)
    return path


def test_the_overview_says_what_the_file_says_and_goes_on_saying_it(
    page: Browser, serve: Serve, shop: Path
) -> None:
    page.open(serve(shop))
    page.until_text("quakes")
    status = fencepost.status(shop)
    for name, queue in status["queues"].items():
        assert name in page.text("table")
        if queue["paused"]:
            assert "paused" in page.text("table")
    assert f"{status['totals']['pending']:,}" in page.text(".tiles")
    assert "Pause" not in page.text("table"), "it only reads"
    with fencepost.open(shop) as store:
        store.queue("quite new").enqueue(1)
    page.until_text("quite new")
    page.until("document.querySelectorAll('.plot .line').length === 2")
    points = "document.querySelector('.inline .line').getAttribute('d').split('L').length"
    drawn = page.js(points)
    page.js("location.reload()")
    page.until(f"document.querySelector('.inline .line') && {points} >= {drawn}")


def test_dead_letters_are_replayed_without_a_mouse(page: Browser, serve: Serve, path: Path) -> None:
    """And the token that came with the address is in it no longer."""
    with fencepost.open(path) as store:
        _one, two, three = dead(store, "a", "b", "c")
        page.open(serve(path, "replay"))
        page.until_text("Dead letters")
        assert TOKEN not in page.js("location.href")
        page.press("2")
        page.until(f"document.querySelector('[data-open=\"{three}\"]')")
        page.press("j")
        page.until("document.activeElement.dataset.open")
        page.press("j")
        page.until(f"document.activeElement.dataset.open === '{two}'")
        page.press("x")
        page.until_text("1 chosen")
        page.click("Replay", ".bulk")
        page.until_text("1 replayed", "#toasts")
        assert [m.id for m in store.messages("pending")] == [two]
        page.until(f"!document.querySelector('[data-open=\"{two}\"]')")
        page.click("Replay all…")
        page.click("Replay all", "dialog")
        page.until_text("2 replayed", "#toasts")
        page.until_text("No dead letters.")
        assert store.stats()["totals"] == {**store.stats()["totals"], "dead": 0, "pending": 3}


def test_a_payload_is_not_there_until_it_is_asked_for(
    page: Browser, serve: Serve, path: Path
) -> None:
    with fencepost.open(path) as store:
        (id_,) = dead(store, {"card": 2**62 + 1})
    address = serve(path, "payloads")
    page.open(address.partition("#")[0] + "#dead")
    page.click(str(id_))
    page.until_text("it was", "dialog")
    number = str(2**62 + 1)
    assert number not in page.text("dialog .payload")
    page.click("Show payload", "dialog")
    page.until_text("Token", "dialog.ask")
    page.fill("dialog.ask input", TOKEN)
    page.click("Unlock", "dialog.ask")
    page.until_text(number, "dialog .payload")


def test_a_send_in_doubt_is_confirmed_with_a_note(page: Browser, serve: Serve, shop: Path) -> None:
    page.open(serve(shop, "confirm"))
    page.until_text("In doubt")
    page.js("location.hash = '#unknown'")
    page.until("document.querySelectorAll('[data-open]').length === 4")
    page.click("All on this page")
    page.click("It arrived", ".bulk")
    page.fill("dialog.ask input", "they said so")
    page.click("Confirm", "dialog")
    page.until_text("4 confirmed", "#toasts")
    page.until_text("No delivery is in doubt.")


def test_a_run_is_drawn_on_a_line_of_time(page: Browser, serve: Serve, shop: Path) -> None:
    page.open(serve(shop))
    page.until_text("Workflows", "nav")
    page.js("location.hash = '#runs'")
    page.click("refund of order 25")
    page.until_text("approved by", "dialog table")
    assert "waits" in page.text("dialog table")
    assert "left" in page.text("dialog table")
    assert page.js("document.querySelectorAll('dialog .track .step').length") == 3
    widths = "[...document.querySelectorAll('dialog .step')].map((e) => +e.getAttribute('width'))"
    look_up, cool_off, approval = page.js(widths)
    assert 0 < look_up < cool_off < approval < 100
    page.js("history.back()")
    page.until_text("Queues")
    assert page.js("document.querySelectorAll('dialog').length") == 0


HOSTILE = (
    "<script>window.hurt = 1</script>",
    "<img src=x onerror='window.hurt = 2'>",
    "\"><svg/onload='window.hurt=3'>",
    "javascript:window.hurt=4",
    "${window.hurt=5}{{window.hurt=5}}",
    "\u202egnp.exe\u2069\u200b",
)


def test_what_comes_out_of_a_file_hurts_nobody(page: Browser, serve: Serve, path: Path) -> None:
    """In names, keys, lanes, failures and payloads: it is shown letter by letter."""
    with fencepost.open(path) as store:
        for text in (*HOSTILE, "__proto__", "constructor"):
            queue = store.queue(f"q {text}", listed=True, addressed=True, keep=3600)
            queue.enqueue({text: [text]}, key=text, lane=text, headers={"x": text})
            queue.claim()[0].fail(f"{text}\n{text}")
            queue.enqueue(1, lane=text)
    address = serve(path, *dashboard.ALLOWED)
    page.open(address)
    page.until_text(HOSTILE[0], "table")
    page.until_text("__proto__", "table")
    page.until("document.querySelectorAll('.plot .line').length === 2")
    assert "\\u{202e}gnp.exe\\u{2069}\\u{200b}" in page.text("table")
    for view in ("messages?state=pending", "dead"):
        page.js(f"location.hash = '#{view}'")
        page.until_text(HOSTILE[1], "table")
    for row in range(len(HOSTILE)):
        page.js(f"document.querySelectorAll('[data-open]')[{row + 2}].click()")
        page.until_text("failure", "dialog")
        page.click("Show payload", "dialog")
        page.until_text("headers", "dialog .payload")
        assert (
            page.js("document.querySelectorAll('dialog :is(img, script, svg, iframe)').length") == 0
        )
        page.js("document.querySelector('dialog').close()")
    assert page.js("window.hurt") is None
    assert page.js("document.scripts.length") == 1
    assert page.js("document.images.length") == 1


def test_a_filter_of_any_queue_finds_what_is_its_own(
    page: Browser, serve: Serve, path: Path
) -> None:
    """Also where the name has what addresses are made of."""
    name = "a&state=done#x?y=%20+ü"
    with fencepost.open(path) as store:
        dead(store, 1, name="other")
        (id_,) = dead(store, 2, name=name)
    page.open(serve(path))
    page.until_text(name, "table")
    page.js(
        "[...document.querySelectorAll('tbody tr')]"
        f".find((r) => r.textContent.includes({json.dumps(name)})).querySelector('a.bad').click()"
    )
    page.until("document.querySelectorAll('[data-open]').length === 1")
    assert page.js("document.querySelector('[data-open]').dataset.open") == str(id_)
    assert page.js("document.querySelector('#f-queue').value") == name


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(texts=st.lists(st.text() | st.sampled_from(HOSTILE), max_size=30))
def test_any_text_becomes_one_text_and_no_element(dom: Browser, texts: list[str]) -> None:
    """What is no visible character is written out, so that it can hide nothing."""
    told = dom.js(
        f"""(async () => {{
          const {{ h, block }} = await import("/assets/dom.js");
          const made = (text) => [h("p", {{ title: text }}, text), block(text)];
          const told = (e) => [e.childElementCount, e.textContent];
          return {json.dumps(texts)}.map((text) => made(text).map(told));
        }})()"""
    )
    for text, (inline, lines) in zip(texts, told, strict=True):
        assert inline[0] == lines[0] == 0
        # What is assigned at all is not the same in every Unicode.
        shown = [c for c in inline[1] if not c.isprintable() and unicodedata.category(c) != "Cn"]
        assert shown == []
        if text.isascii() and text.isprintable():
            assert inline[1] == lines[1] == text


@pytest.fixture
def dom(page: Browser, serve: Serve, path: Path) -> Browser:
    page.open(serve(path))
    page.until_text("The file is not there")
    page.complaints.clear()
    return page


def test_a_file_that_is_not_there_is_told_and_seen_when_it_comes(
    page: Browser, serve: Serve, path: Path
) -> None:
    page.open(serve(path))
    page.until_text("The file is not there")
    assert f"there is no file {path}" in page.text("#trouble")
    with fencepost.open(path) as store:
        store.queue("here").enqueue(1)
    page.until_text("here", "table")
    page.until("document.querySelector('#trouble').hidden")
    page.complaints.clear()  # the browser's own lines for each 503


TOO_SMALL = """
[...document.querySelectorAll('td')].filter((td) => td.scrollWidth > td.clientWidth + 1)
  .map((td) => td.textContent)
"""
VIEWS = (
    "overview",
    "dead",
    "unknown",
    "inbox",
    "runs",
    "messages",
    "lanes",
    "schedules",
    "workers",
)


def test_no_view_is_wider_than_a_phone(page: Browser, serve: Serve, shop: Path) -> None:
    """And the dark one is dark."""
    address = serve(shop, *dashboard.ALLOWED)
    for dark in (True, False):
        page.shape(360, 740, dark=dark)
        page.open(address)
        page.until_text("quakes")
        ground = page.js("getComputedStyle(document.body).backgroundColor")
        assert (max(map(int, ground[4:-1].split(","))) < 60) is dark
    for view in VIEWS:
        page.js(f"location.hash = '#{view}'")
        page.until(f"document.querySelector('nav a[aria-current]').hash === '#{view}'")
        page.until("document.querySelector('main .card') && !document.querySelector('.loading')")
        assert page.js("document.documentElement.scrollWidth") <= 360, view
        assert page.js(TOO_SMALL) == [], view
