"""
A Django project in one file, run by test_django.py: its database is the queue's file.

    python django_shop.py app.db [transaction_mode]
"""

from __future__ import annotations

import sys
from typing import Any

import django
import pytest
from django.conf import settings
from django.db import connection, connections, models, transaction

import fencepost
from fencepost import sql

PATH, *MODE = sys.argv[1:]
store = fencepost.open(PATH)
queue: fencepost.Queue[Any] = store.queue("data")

settings.configure(
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": PATH,
            "OPTIONS": {"timeout": 0.2, **({"transaction_mode": MODE[0]} if MODE else {})},
        },
        "other": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"},
    }
)
django.setup()


class Order(models.Model):  # type: ignore[misc]
    total = models.IntegerField()

    class Meta:
        app_label = "shop"

    def __str__(self) -> str:
        return f"order {self.id}"


class Undone(Exception):
    pass


def one_commit_or_none() -> None:
    try:
        with transaction.atomic():
            Order.objects.create(total=1)
            queue.enqueue("a", tx=connection)
            raise Undone
    except Undone:
        pass
    assert (Order.objects.count(), queue.size()) == (0, 0)
    with transaction.atomic():
        order = Order.objects.create(total=1)
        given = queue.enqueue({"order": order.id}, key=f"order:{order.id}", tx=connection)
        try:
            with transaction.atomic():  # a savepoint
                queue.enqueue_many(["b", "c"], tx=connection)
                raise Undone
        except Undone:
            pass
    (claim,) = queue.claim(5)
    assert (claim.id, claim.payload) == (given.id, {"order": order.id})
    with transaction.atomic():
        Order.objects.all().delete()
        claim.ack(tx=connection)
    assert (Order.objects.count(), queue.size()) == (0, 0)


def refusals() -> None:
    with pytest.raises(fencepost.InvalidArgument, match="begin one with transaction.atomic"):
        queue.enqueue("a", tx=connection)
    with transaction.atomic():
        first = queue.enqueue("a", key="k", tx=connection)
        with pytest.raises(fencepost.Conflict) as told:
            queue.enqueue("b", key="k", tx=connection)
        assert told.value.id == first.id
        with pytest.raises(fencepost.InvalidArgument, match="there is no such queue"):
            sql.enqueue(connection, "none", "{}")
        Order.objects.create(total=2)
    assert (Order.objects.count(), queue.size()) == (1, 1)
    with transaction.atomic(using="other"), pytest.raises(fencepost.InvalidArgument):
        queue.enqueue("a", tx=connections["other"])


def a_reader_that_writes_too_late() -> None:
    try:
        with transaction.atomic():
            list(Order.objects.all())
            if not MODE:
                queue.enqueue("somebody else's")
                with pytest.raises(fencepost.Busy, match="transaction_mode"):
                    queue.enqueue("b", tx=connection)
            else:
                queue.enqueue("b", tx=connection)
                raise Undone
    except Undone:
        pass


with connection.schema_editor() as editor:
    editor.create_model(Order)
one_commit_or_none()
refusals()
a_reader_that_writes_too_late()
assert store.check(full=True) == []
store.close()
print("fine")
