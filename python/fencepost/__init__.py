"""
Fencepost: durable jobs, outbox, inbox and workflows in one SQLite file.

    app = fencepost.App("app.db")       what is declared: jobs, queues, and the worker for them
    store = fencepost.open("app.db")    the file itself: queues, transactions, the operator's view
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fencepost._aiostore import AsyncStore
from fencepost._binding.calls import SQLITE_VERSION as sqlite_version  # noqa: N811
from fencepost._offline import restore, status
from fencepost._workflow.runfile import RunInfo, RunPage, RunState, Step
from fencepost.aio import (
    AsyncClaim,
    AsyncHandle,
    AsyncInbox,
    AsyncJob,
    AsyncOutbox,
    AsyncQueue,
    AsyncWorkflow,
    AsyncWorkflowHandle,
)
from fencepost.app import App
from fencepost.claims import Batch, Claim
from fencepost.codec import Codec
from fencepost.context import Context
from fencepost.envelope import Contracts, Envelope, Fault
from fencepost.errors import (
    Busy,
    Cancelled,
    Closed,
    Conflict,
    DeliveryUnknown,
    Error,
    ForkedHandle,
    Gone,
    InvalidArgument,
    JobFailed,
    LeaseLost,
    NewerSchema,
    PayloadError,
    PermanentError,
    QueueFull,
    RetryLater,
    StorageError,
)
from fencepost.inbox import Accepted, Inbox
from fencepost.jobs import Call, Handle, Job, Status
from fencepost.outbox import Delivery, Outbox
from fencepost.queues import Queue
from fencepost.run import Run
from fencepost.store import Store, open  # noqa: A004 - called as fencepost.open
from fencepost.transactions import Rows, Transaction, Tx
from fencepost.values import (
    Backoff,
    Content,
    Enqueued,
    Failure,
    FailureKind,
    Halted,
    JobPolicy,
    Message,
    Options,
    Page,
    Policy,
    Replayed,
    Row,
    Span,
    State,
    StrPath,
    Surroundings,
)
from fencepost.worker import Worker
from fencepost.workflow import Workflow, WorkflowHandle

__all__ = [
    "Accepted",
    "App",
    "AsyncClaim",
    "AsyncHandle",
    "AsyncInbox",
    "AsyncJob",
    "AsyncOutbox",
    "AsyncQueue",
    "AsyncStore",
    "AsyncWorkflow",
    "AsyncWorkflowHandle",
    "Backoff",
    "Batch",
    "Busy",
    "Call",
    "Cancelled",
    "Claim",
    "Closed",
    "Codec",
    "Conflict",
    "Content",
    "Context",
    "Contracts",
    "Delivery",
    "DeliveryUnknown",
    "Enqueued",
    "Envelope",
    "Error",
    "Failure",
    "FailureKind",
    "Fault",
    "ForkedHandle",
    "Gone",
    "Halted",
    "Handle",
    "Inbox",
    "InvalidArgument",
    "Job",
    "JobFailed",
    "JobPolicy",
    "LeaseLost",
    "Message",
    "NewerSchema",
    "Options",
    "Outbox",
    "Page",
    "PayloadError",
    "PermanentError",
    "Policy",
    "Queue",
    "QueueFull",
    "Replayed",
    "RetryLater",
    "Row",
    "Rows",
    "Run",
    "RunInfo",
    "RunPage",
    "RunState",
    "Span",
    "State",
    "Status",
    "Step",
    "StorageError",
    "Store",
    "StrPath",
    "Surroundings",
    "Transaction",
    "Tx",
    "Worker",
    "Workflow",
    "WorkflowHandle",
    "__version__",
    "open",
    "restore",
    "sqlite_version",
    "status",
]


if TYPE_CHECKING:
    __version__: str
else:

    def __getattr__(name: str) -> Any:
        if name == "__version__":
            from importlib.metadata import version  # slow to import, and rarely asked for

            return version("fencepost")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
