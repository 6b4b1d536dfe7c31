"""Who may ask the dashboard, and that what it says is inert wherever it lands."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette")
pytest.importorskip("httpx")

from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost import InvalidArgument, Store, dashboard
from fencepost.dashboard.answers import Refused, answer, refusal
from harness_web import TOKEN, Web

ASSETS = {
    file.name: file.read_text(encoding="utf-8")
    for file in (resources.files("fencepost.dashboard") / "assets").iterdir()
}
ID = {"messages": [{"id": 1}]}
ACTIONS: dict[str, tuple[str, Any]] = {
    "replay": ("replay", ID),
    "retry": ("retry", ID),
    "confirm": ("confirm", ID),
    "cancel": ("cancel", ID),
    "pause": ("pause", {"queue": "q"}),
    "resume": ("pause", {"queue": "q"}),
    "release": ("release", {"queue": "q", "lane": "l"}),
    "cancel-run": ("cancel", {"id": "r"}),
    "resume-run": ("replay", {"id": "r"}),
    "discard": ("discard", {"before": "2026-01-01T00:00:00Z"}),
}
SECRET = "/api/messages/1/content"


def able(store: Store, **how: Any) -> Web:
    """May do anything; has the token in its hand, unless `token` says otherwise."""
    given = how.pop("token", TOKEN)
    app = dashboard.app(store, allow=dashboard.ALLOWED, token=TOKEN, **how)
    return Web(app, token=given)


# ---- what is allowed -----------------------------------------------------------------------------


def test_it_only_reads_unless_it_is_allowed_more_by_name(store: Store) -> None:
    """A token alone allows nothing, and one name allows no other."""
    store.queue("q", addressed=True).enqueue(1)
    none = Web(dashboard.app(store, token=TOKEN), token=TOKEN)
    about = none.get("about")
    assert (about["allowed"], about["private"]) == ([], False)
    for name, (allowed_as, body) in ACTIONS.items():
        assert none.refused("POST", f"/api/{name}", json=body)[:2] == (403, "not_allowed")
        others = [word for word in dashboard.ALLOWED if word != allowed_as]
        web = Web(dashboard.app(store, allow=others, token=TOKEN), token=TOKEN)
        assert web.refused("POST", f"/api/{name}", json=body)[:2] == (403, "not_allowed")
    assert none.refused("GET", SECRET)[:2] == (403, "not_allowed")
    assert store.stats()["queues"]["q"]["paused"] is False
    assert store.stats()["totals"]["pending"] == 1


@pytest.mark.parametrize("given", [None, "", "wrong", TOKEN[:-1], TOKEN + "x", TOKEN.upper(), "é"])
def test_what_is_allowed_needs_the_token(store: Store, given: str | None) -> None:
    web = able(store, token=None)
    headers = {} if given is None else {"X-Fencepost-Token": given.encode()}
    for name, (_, body) in ACTIONS.items():
        answer = web.refused("POST", f"/api/{name}", json=body, headers=headers)
        assert answer[:2] == (401, "token")
    assert web.refused("GET", SECRET, headers=headers)[:2] == (401, "token")
    assert web.get("status")["totals"]["dead"] == 0, "reading goes without"


def test_the_token_is_taken_from_its_header_alone(store: Store) -> None:
    """Not from the address, which is logged, nor from a cookie, which another site can ride on."""
    store.queue("q", addressed=True).enqueue(1)
    web = able(store, token=None)
    cookies = {"Cookie": f"X-Fencepost-Token={TOKEN}; token={TOKEN}"}
    assert web.refused("GET", f"{SECRET}?token={TOKEN}", headers=cookies)[:2] == (401, "token")
    assert able(store).ask("GET", SECRET).status_code == 200


def test_the_token_is_compared_in_constant_time(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def compare(a: bytes, b: bytes) -> bool:
        seen.append((a, b))
        return a == b

    monkeypatch.setattr("hmac.compare_digest", compare)
    able(store, token="wrong").refused("POST", "/api/pause", json={"queue": "q"})
    assert seen == [(b"wrong", TOKEN.encode())]


def test_where_reading_is_private_it_needs_the_token_too(store: Store) -> None:
    app = dashboard.app(store, private=True, token=TOKEN)
    for path in ("status", "messages?state=dead", "schedules", "workers", "messages/1"):
        assert Web(app).refused("GET", f"/api/{path}")[:2] == (401, "token")
    assert Web(app).get("about")["private"] is True
    assert Web(app).ask("GET", "/").status_code == 200, "the page itself says nothing"
    assert Web(app, token=TOKEN).get("status")["totals"]["dead"] == 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"allow": ["everything"], "token": TOKEN},
        {"allow": "replay", "token": TOKEN},
        {"allow": ["replay"]},
        {"private": True},
        {"token": "short"},
        {"token": "with a line\nend in it"},
        {"token": "größer als sechzehn"},
        {"hosts": "localhost"},
    ],
)
def test_what_it_is_told_is_checked_where_it_is_made(path: Path, wrong: Any) -> None:
    with pytest.raises(InvalidArgument):
        dashboard.app(path, **wrong)


@pytest.mark.parametrize("given", [None, 7, object()])
def test_it_is_made_of_a_store_an_app_or_a_path(given: Any) -> None:
    with pytest.raises(InvalidArgument, match="a store, an App or a path"):
        dashboard.app(given)


# ---- other sites ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "", "192.168.0.7"]
)
def test_a_name_that_was_made_to_lead_here_is_refused(store: Store, host: str) -> None:
    """DNS rebinding: the other site's page would be of the same origin as this one."""
    web = able(store)
    for method, path in (("GET", "/"), ("GET", "/api/status"), ("POST", "/api/pause")):
        headers = {"Host": host}
        assert web.refused(method, path, headers=headers)[:2] == (403, "host")


def test_one_host_is_asked_and_no_other_beside_it(store: Store) -> None:
    """Who stands in front may have looked at the other one."""
    both = [("Host", "localhost"), ("Host", "evil.example")]
    for headers in (both, both[::-1]):
        assert able(store).refused("GET", "/api/status", headers=headers)[:2] == (403, "host")


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8765", "127.0.0.1:1", "[::1]:8765"])
def test_its_own_names_are_answered_to_at_any_port(store: Store, host: str) -> None:
    web = able(store)
    assert web.ask("GET", "/api/status", headers={"Host": host}).status_code == 200


def test_further_names_are_given_and_a_star_leaves_it_to_whoever_stands_in_front(
    store: Store,
) -> None:
    named = Web(dashboard.app(store, hosts=["Ops.Example.com"]), host="ops.example.com")
    assert named.get("status")
    assert named.refused("GET", "/", headers={"Host": "localhost"})[:2] == (403, "host")
    assert Web(dashboard.app(store, hosts=["*"]), host="any.example").get("status")


@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "null", "http://localhost:9", "https://localhost", "http://", "x"],
)
def test_what_another_sites_page_sends_is_refused(store: Store, origin: str) -> None:
    """Also with the right token in its hand."""
    store.queue("q").enqueue(1)
    web = able(store)
    how: Any = {"json": {"queue": "q"}, "headers": {"Origin": origin}}
    assert web.refused("POST", "/api/pause", **how)[:2] == (403, "origin")
    assert web.refused("GET", "/api/status", headers={"Origin": origin})[:2] == (403, "origin")
    for site in ("cross-site", "same-site"):
        headers = {"Sec-Fetch-Site": site}
        assert web.refused("POST", "/api/pause", json={"queue": "q"}, headers=headers)[0] == 403
        assert web.ask("GET", "/", headers=headers).status_code == 200, "a link to it is none"
    assert store.stats()["queues"]["q"]["paused"] is False


def test_its_own_page_is_answered(store: Store) -> None:
    store.queue("q").enqueue(1)
    web = able(store, hosts=["localhost"])
    for host, origin in (
        ("localhost:8765", "http://localhost:8765"),
        ("localhost", "http://localhost"),
        ("localhost", "http://localhost:80"),
    ):
        headers = {"Host": host, "Origin": origin, "Sec-Fetch-Site": "same-origin"}
        answer = web.ask("POST", "/api/pause", json={"queue": "q"}, headers=headers)
        assert answer.status_code == 200


@pytest.mark.parametrize(
    "type_", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""]
)
def test_what_a_form_can_send_is_no_deed(store: Store, type_: str) -> None:
    web = able(store)
    how: Any = {"content": b'{"queue":"q"}', "headers": {"Content-Type": type_}}
    assert web.refused("POST", "/api/pause", **how)[:2] == (415, "invalid")


def test_nobody_is_told_that_they_may_ask_from_elsewhere(store: Store) -> None:
    """No CORS: a script of another site that asks first gets no yes."""
    asking = {
        "Origin": "http://localhost",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "x-fencepost-token",
    }
    answer = able(store).ask("OPTIONS", "/api/pause", headers=asking)
    assert answer.status_code == 405
    assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"queue":1}', b'{"queue":"q","more":1}'])
def test_a_deed_that_makes_no_sense_is_told_so(store: Store, body: bytes) -> None:
    how: Any = {"content": body, "headers": {"Content-Type": "application/json"}}
    assert able(store).refused("POST", "/api/pause", **how)[:2] == (400, "invalid")


def test_a_request_is_not_read_without_end(store: Store) -> None:
    long: Any = {"content": b" " * 70_000, "headers": {"Content-Type": "application/json"}}
    assert able(store).refused("POST", "/api/pause", **long)[:2] == (413, "invalid")
    many = {"messages": [{"id": 1}] * 201}
    assert able(store).refused("POST", "/api/cancel", json=many)[:2] == (400, "invalid")


# ---- inert ---------------------------------------------------------------------------------------

NEVER = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment"
    r"|\beval\b|new Function|setTimeout\(\s*[\"'`]|srcdoc|javascript:|\bimport\("
)


def test_every_answer_carries_the_policy_and_no_cookie(store: Store) -> None:
    web = able(store)
    answers = [
        web.ask("GET", "/"),
        web.ask("GET", "/assets/main.js"),
        web.ask("GET", "/api/status"),
        web.ask("GET", "/none"),
        web.ask("GET", "/api/status", headers={"Host": "evil.example"}),
        web.ask("POST", "/api/pause", json={"queue": "none"}),
    ]
    for one in answers:
        policy = one.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self';" in policy
        assert "require-trusted-types-for 'script'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert "http" not in policy
        assert one.headers["x-content-type-options"] == "nosniff"
        assert one.headers["referrer-policy"] == "no-referrer"
        assert "set-cookie" not in one.headers
        assert one.headers["cache-control"] in ("no-store", "no-cache")


def test_the_page_has_nothing_from_elsewhere_and_nothing_inline() -> None:
    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
            for name, value in attributes:
                assert not name.startswith("on"), (tag, name)
                assert name != "style"
                if name in ("src", "href") and value != "#main":
                    assert (value or "").startswith("assets/"), value
            inline.append(tag in ("script", "style") and not dict(attributes).get("src"))

    inline: list[bool] = []
    Reader().feed(ASSETS["index.html"])
    assert inline
    assert not any(inline)
    for name, text in ASSETS.items():
        addresses = set(re.findall(r"https?://[^\"'` )]+", text))
        assert addresses <= {"http://www.w3.org/2000/svg"}, name
        assert "url(" not in text, name


def test_no_script_of_the_page_reads_text_as_markup() -> None:
    for name, text in ASSETS.items():
        assert not NEVER.search(text), name


HOSTILE = st.one_of(
    st.text(),
    st.sampled_from(
        [
            "<script>alert(1)</script>",
            "</script><svg onload=alert(1)>",
            "' onmouseover='alert(1)",
            "<!--",
            "\u2028\u2029\u202e\x00\ufeff",
            "&lt;b&gt;",
            "__proto__",
            "\ud800",
        ]
    ),
)


@settings(max_examples=60)
@given(st.recursive(HOSTILE, lambda inner: st.lists(inner) | st.dictionaries(HOSTILE, inner)))
def test_whatever_is_told_is_inert_and_comes_back_as_it_was(value: Any) -> None:
    """No byte of an answer could be markup, in an attribute or anywhere, and none is lost."""
    body = bytes(answer(value).body)
    assert not set(body) & set(b"<>&'")
    assert body.isascii()
    assert json.loads(body) == value


@given(name=HOSTILE, text=HOSTILE)
def test_a_refusal_is_inert_too(name: str, text: str) -> None:
    made = refusal(Refused(400, "invalid", f"{name}{text}"))
    assert not set(bytes(made.body)) & set(b"<>&'")
    assert json.loads(bytes(made.body))["error"]["message"] == f"{name}{text}"
