"""What a test asks for and does not find: the words say what is there instead."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fencepost import App, InvalidArgument
from fencepost.testing import Kit, override
from harness_worker import NOON

app = App()
numbers = app.queue("numbers", int)
receipts = app.outbox("receipt", str)
payments = app.inbox("payments", str)


@app.job
def mail(to: str, text: str = "hello") -> None: ...


@app.job(queue="slow")
def resize(picture: dict[str, int]) -> None: ...


@pytest.fixture
def kit() -> Iterator[Kit]:
    with override(app, now=NOON) as kit:
        yield kit


def words(kit: Kit, *args: str, **kwargs: str) -> list[str]:
    with pytest.raises(AssertionError) as raised:
        kit.assert_enqueued(mail, *args, **kwargs)
    return str(raised.value).splitlines()


def words_of_another_app() -> None: ...


def test_a_call_is_the_same_however_it_was_spelled(kit: Kit) -> None:
    mail.enqueue("ann", text="hi")
    kit.assert_enqueued(mail, text="hi", to="ann")
    resize.enqueue({"width": 1, "height": 2})
    kit.assert_enqueued(resize, {"height": 2, "width": 1})


def test_the_first_of_equal_ones_is_found(kit: Kit) -> None:
    first, _ = mail.enqueue("ann"), mail.enqueue("ann")
    assert kit.assert_enqueued(mail, "ann").id == first.id


def test_other_calls_of_it_are_told_with_their_time(kit: Kit) -> None:
    mail.enqueue("ann")
    mail.options(delay=90).enqueue("bob")
    assert words(kit, "cat") == [
        'no call of mail with {"to":"cat"} is in line',
        "  of mail there are in line:",
        '    {"to":"ann"}, due',
        '    {"to":"bob"}, due in 0:01:30',
    ]


def test_one_that_runs_is_told_so(kit: Kit) -> None:
    mail.enqueue("ann")
    with kit.crash_at("claimed"):
        kit.drain()
    assert words(kit, "bob")[-1] == '    {"to":"ann"}, leased, attempt 1'


def test_many_are_not_all_told(kit: Kit) -> None:
    mail.enqueue_many([mail.call("x" * 1000) for _ in range(23)])
    lines = words(kit, "bob")
    assert lines[-1] == "    and 3 more"
    assert max(map(len, lines)) < 400


def test_where_there_is_none_of_it_the_others_are_told(kit: Kit) -> None:
    assert words(kit, "ann")[1:] == ["  in line: nothing; calls of it that have ended: 0"]
    resize.enqueue({})
    numbers.enqueue_many([1, 2])
    receipts.send("d", "paid")
    assert words(kit, "ann")[1:] == [
        "  in line: 1 of resize, 2 in numbers, 1 in receipt; calls of it that have ended: 0"
    ]


def test_one_that_has_ended_is_told(kit: Kit) -> None:
    handle = mail.enqueue("ann")
    kit.drain()
    assert words(kit, "ann")[1:] == [
        f"  there was one, message {handle.id}, and it is done",
        "  in line: nothing; calls of it that have ended: 1",
    ]


def test_queues_and_boxes_are_asked_for_by_name(kit: Kit) -> None:
    assert kit.enqueued("numbers") == []
    numbers.enqueue(1)
    kit.store.queue("elsewhere", int).enqueue(1)
    receipts.send("d", "paid")
    payments.accept("1", "paid")
    names = ("numbers", "elsewhere", "receipt", "payments")
    assert [len(kit.enqueued(name)) for name in names] == [1] * 4


def test_the_oldest_is_the_first_whether_it_runs_or_not(kit: Kit) -> None:
    running, waiting = mail.enqueue("ann"), mail.options(priority=1, delay=1).enqueue("bob")
    with kit.crash_at("claimed"):
        kit.drain()
    assert [message.id for message in kit.enqueued(mail)] == [running.id, waiting.id]


def test_more_than_a_page_is_found_in_order(kit: Kit) -> None:
    mail.enqueue_many([mail.call("ann") for _ in range(450)])
    ids = [message.id for message in kit.enqueued(mail)]
    assert len(ids) == 450
    assert ids == sorted(ids)


def test_a_name_that_nothing_has_is_no_empty_answer(kit: Kit) -> None:
    """Or a slip of the pen would pass for ever."""
    with pytest.raises(InvalidArgument, match="'receipts'.*'numbers', 'payments', 'receipt'"):
        kit.enqueued("receipts")
    with pytest.raises(InvalidArgument, match="pass <Job mail> itself"):
        kit.enqueued("mail")
    with pytest.raises(InvalidArgument, match="takes a job, a workflow"):
        kit.enqueued(receipts)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="enqueued"):
        kit.assert_enqueued(receipts, "paid")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="another App"):
        kit.enqueued(App().job(words_of_another_app))


def test_a_call_that_does_not_fit_is_refused(kit: Kit) -> None:
    with pytest.raises(InvalidArgument, match="mail"):
        kit.assert_enqueued(mail)  # type: ignore[call-arg]
