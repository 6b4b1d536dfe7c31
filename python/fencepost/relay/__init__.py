"""
Relays: handlers of an outbox that hand each delivery to a system beside us.

    from fencepost.relay.webhook import Webhook            # pip install 'fencepost[webhook]'

    receipts = app.outbox("receipt", Receipt, on_unknown="retry")
    receipts.handler(Webhook(secret="whsec_…"))
    receipts.send("https://shop.example/hooks", Receipt(42), key="receipt:42", lane="ann")

What is sent is `Delivery.body` with the headers of `Delivery.headers`, and `event_id` where the
system looks for what it has had already. A relay answers for a delivery in one of five ways:

    it arrived, the system says so          returns: the message is done
    it can never be said like this          PermanentError: a dead letter
    the system cannot be reached            RetryLater: the whole outbox waits, nobody's attempts
    the system says no, for now             Refused: another attempt, after the back-off
    it was said, and no answer came         DeliveryUnknown: put aside, or with
                                            on_unknown="retry" sent again as the same event

All of them run on the worker's event loop, each with a connection of its own there.
"""
