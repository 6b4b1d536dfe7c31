"""
A job in a file: enqueue it, then run a worker until Ctrl-C.

    python examples/quickstart.py
"""

import fencepost

app = fencepost.App("app.db")


@app.job(max_attempts=5, timeout=30)
def send_mail(to: str, text: str) -> None:
    print(f"to {to}: {text}", flush=True)


if __name__ == "__main__":
    send_mail.enqueue("ann@example.com", "hello")
    app.run()
