"""
The house rules that a machine can check, so that a review is never about them.

    python tests/tidy.py            exit 1 and one line a finding

Arrows between rooms point down, the doors to the core are few, files and functions stay short,
nothing is dead or left over. The two tables below are the floor plan; a new room is a new word in
one of them.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

# --- The floor plan -------------------------------------------------------------------------------

# C, from the ground up. A room may #include what stands on a lower line; those on one line are
# siblings and do not know each other. A file `room_part.c` belongs to its room.
C_FLOORS = [
    "base",
    "err fault sys",
    "schema door locks crash",
    "sql given",
    "stmt",
    "storetime pack place check disk bell",
    "db",
    "txn copy",
    "policy line registry schedule",
    "record pass",
    "key lane gauge listing limit run shelf",
    "settle",
    "claim enqueue replay retain",
    "flow",
    "store",
    "wake",
    "guest turn writelock",
    "wal",
    "group",
    "keeper orphans",
    "api",
]
# The face: any room may know it, it knows none.
C_PUBLIC = {f"fencepost{part}.h" for part in ("", "_flow", "_many", "_shelf", "_test")}
C_NO_HEADER = {"api"}  # rooms whose header is the face

# Python, from the ground up, by the same rule. These packages are doors between rooms, not rooms.
PACKAGES = {"_binding", "_door", "_testing", "_worker", "_workflow"}
PYTHON_FLOORS = [
    "errors values outcomes _core _core_test executor prefetch failpoints _fingerprint",
    "_checks _atexit",
    "spans codec lib signals",
    "pack codes envelope",
    "crossing results",
    "requests keeper flowpack",
    "_arguments calls flowrequests",
    "waiters",
    "watch",
    "bridge",
    "policies _verdicts guest shelf flow",
    "history roundtrip",
    "_file _surroundings drivers tasks",
    "inserts _plans",
    "transactions _enqueue",
    "_inspect runfile passes",
    "timeline",
    "waits execution aio _aiostore",
    "_declared claims context _offline _handles",
    "queues _function",
    "store",
    "jobs outbox inbox",
    "handle",
    "workflow",
    "children",
    "run flowwriter schedule",
    "registry",
    "scheduler",
    "routes groups channel leases",
    "runs",
    "contextrun batchrun",
    "jobrun sendrun receiptrun flowrun",
    "dispatcher",
    "launcher",
    "loop",
    "worker",
    "app sql clock crash lookup",
    "drain",
    "__init__",
    "_operator",
    "dashboard relay",
    "cli",
    "testing __main__",
    "_pytest compat",
]
CORE = {"_core", "_core_test", "lib"}
CORE_NAMES = {"ffi", "lib"}
CORE_USERS = "_binding"  # the package that touches what cffi made

# Files that nothing imports, because people and tools begin with them.
ENTRIES = {"__init__", "__main__", "build_ffi", "conftest", "tidy", "sql", "testing", "cli"}
ENTRIES |= {"_pytest", "analyze", "mutants", "newer_python", "packaged"}  # of pytest, and of make
ENTRY_PREFIXES = ("test_", "bench_")
ENTRY_FOLDERS = {"driver", "fuzz", "examples", "adapters", "programs", "relay"}

# --- Limits ---------------------------------------------------------------------------------------

FILE_LINES_MAX = 400  # more is two rooms
FUNCTION_LINES_MAX = 70  # a screen
COLUMNS_MAX = 100

# Put together from halves, so that this file passes its own rules.
LEFTOVER = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X)\b")
PLACES = re.compile(
    r"(?<![\w.])/(?:wo" r"rk|ro" r"ot|ho" r"me)/|"
    r"py" r"pi\.org|python" r"hosted\.org|npm" r"js\.(?:org|com)|deb\.deb" r"ian\.org"
)  # fmt: skip

CODE = {".c", ".h", ".py", ".pyi"}
TEXT = CODE | {".md", ".toml", ".yml", ".yaml", ".cfg", ".in", ".sh"}
TEXT_NAMES = {"Makefile", "LICENSE", ".gitignore", "run"}
SKIPPED = {"build", "data", "dist", "temp", "sqlite", "node_modules", "__pycache__"}


class Finding(NamedTuple):
    path: Path
    line: int
    words: str


Findings = Iterator[Finding]


class Tree:
    """The files of one source tree, read once."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.text: dict[Path, str] = {}
        for path in sorted(walk(root)):
            if path.suffix in TEXT or path.name in TEXT_NAMES:
                self.text[path.relative_to(root)] = path.read_text(encoding="utf-8")

    def files(self, folder: str, *suffixes: str) -> list[Path]:
        return [p for p in self.text if p.parts[0] == folder and p.suffix in suffixes]

    def python(self) -> dict[Path, ast.Module]:
        return {p: ast.parse(t, str(p)) for p, t in self.text.items() if p.suffix == ".py"}


def walk(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        hidden = path.name.startswith(".") and path.name not in {".ci", ".github", ".gitignore"}
        if hidden or path.name in SKIPPED or path.name.endswith(".egg-info"):
            continue
        if path.is_dir():
            yield from walk(path)
        else:
            yield path


# --- C --------------------------------------------------------------------------------------------


def floors(table: list[str]) -> dict[str, int]:
    return {room: level for level, line in enumerate(table) for room in line.split()}


def c_room(path: Path) -> str:
    known = floors(C_FLOORS)
    return path.stem if path.stem in known else path.stem.partition("_")[0]


INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')


def c_includes(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.splitlines(), 1):
        if found := INCLUDE.match(line):
            yield number, found[1]


def c_arrows(tree: Tree) -> Findings:
    """Every #include points down."""
    level = floors(C_FLOORS)
    for path in tree.files("csrc", ".c", ".h"):
        room = c_room(path)
        if path.name not in C_PUBLIC and room not in level:
            yield Finding(path, 1, f"the room {room} is not in tidy's table of C rooms")
            continue
        for number, name in c_includes(tree.text[path]):
            target = c_room(Path(name))
            if name in C_PUBLIC:
                continue
            if path.name in C_PUBLIC:
                yield Finding(path, number, f"the public face includes {name}")
            elif target != room and level.get(target, len(level)) >= level[room]:
                yield Finding(path, number, f"{room} includes {name}, which is not below it")


def c_dead(tree: Tree) -> Findings:
    """Every .c has its header, every header has a reader."""
    files = tree.files("csrc", ".c", ".h")
    included = {
        name for p in files for _, name in c_includes(tree.text[p]) if Path(name).stem != p.stem
    }
    for path in files:
        headless = path.suffix == ".c" and path.with_suffix(".h") not in tree.text
        if headless and c_room(path) not in C_NO_HEADER and f"{c_room(path)}.h" not in included:
            yield Finding(path, 1, "a C file without a header")
        if path.suffix == ".h" and path.name not in included and path.name not in C_PUBLIC:
            yield Finding(path, 1, "nothing includes this header")


def c_functions(tree: Tree) -> Findings:
    """A function fits on a screen."""
    for path in [*tree.files("csrc", ".c", ".h"), *tree.files("tests", ".c", ".h")]:
        start = 0
        for number, line in enumerate(tree.text[path].splitlines(), 1):
            if re.match(r"[A-Za-z_]", line):
                start = number
            elif line == "}" and number - start >= FUNCTION_LINES_MAX:
                words = f"a function of {number - start + 1} lines (at most {FUNCTION_LINES_MAX})"
                yield Finding(path, start, words)


# --- Python ---------------------------------------------------------------------------------------


def for_types_only(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def live_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """All that runs: imports for types alone are no arrows."""
    for child in ast.iter_child_nodes(node):
        if not for_types_only(child):
            yield child
            yield from live_nodes(child)


def imported(node: ast.AST, package: str = "fencepost") -> Iterator[str]:
    """The modules of our package that this statement imports, by their first name inside it."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            if alias.name.split(".")[0] == package:
                yield alias.name.split(".")[1] if "." in alias.name else "__init__"
    elif isinstance(node, ast.ImportFrom):
        inside = (node.module or "").split(".") if node.module else []
        if node.level == 0:
            if not inside or inside[0] != package:
                return
            inside = inside[1:]
        if inside and inside[0] in PACKAGES:
            inside = inside[1:]
        if inside:
            yield inside[0]
        else:
            yield from (alias.name for alias in node.names)


def python_arrows(tree: Tree) -> Findings:
    """Every import inside the package points down, and few touch what cffi made."""
    level = floors(PYTHON_FLOORS)
    for path, module in tree.python().items():
        if path.parts[:2] != ("python", "fencepost"):
            continue
        inside = path.relative_to("python/fencepost").parts
        room = inside[1 if inside[0] in PACKAGES else 0].removesuffix(".py")
        binds = inside[0] == CORE_USERS
        if room not in level:
            yield Finding(path, 1, f"the room {room} is not in tidy's table of Python rooms")
            continue
        for node in live_nodes(module):
            line = getattr(node, "lineno", 1)
            for target in imported(node):
                if target in level and target != room and level[target] >= level[room]:
                    yield Finding(path, line, f"{room} imports {target}, which is not below it")
                if target in CORE and not binds:
                    yield Finding(path, line, f"{room} imports the core; others may")
            if isinstance(node, ast.Name) and node.id in CORE_NAMES and not binds:
                yield Finding(path, line, f"{room} touches {node.id}; others may")


def python_dead(tree: Tree) -> Findings:
    """Every module is imported somewhere, or is where somebody begins."""
    modules = tree.python()
    used: set[str] = set()
    for module in modules.values():
        for node in ast.walk(module):
            if isinstance(node, ast.Import):
                used.update(part for alias in node.names for part in alias.name.split("."))
            elif isinstance(node, ast.ImportFrom):
                used.update((node.module or "").split("."))
                used.update(alias.name for alias in node.names)
    for path in modules:
        entry = path.stem in ENTRIES or path.stem.startswith(ENTRY_PREFIXES)
        if not entry and not ENTRY_FOLDERS & set(path.parts) and path.stem not in used:
            yield Finding(path, 1, "nothing imports this module")


# --- Everything -----------------------------------------------------------------------------------


def shape(tree: Tree) -> Findings:
    """Files end, lines end, and no tabs."""
    for path, text in tree.text.items():
        if path.suffix not in CODE:
            continue
        lines = text.splitlines()
        if len(lines) > FILE_LINES_MAX:
            yield Finding(path, len(lines), f"{len(lines)} lines (at most {FILE_LINES_MAX})")
        if text and not text.endswith("\n"):
            yield Finding(path, len(lines), "the last line does not end")
        for number, line in enumerate(lines, 1):
            if len(line) > COLUMNS_MAX:
                yield Finding(path, number, f"{len(line)} columns (at most {COLUMNS_MAX})")
            if "\t" in line:
                yield Finding(path, number, "a tab")
            if line != line.rstrip():
                yield Finding(path, number, "blanks at the end")


def leftovers(tree: Tree) -> Findings:
    """No reminders, and no names of one machine's places."""
    for path, text in tree.text.items():
        for number, line in enumerate(text.splitlines(), 1):
            if found := LEFTOVER.search(line):
                yield Finding(path, number, f"a leftover {found[0]}")
            if found := PLACES.search(line):
                yield Finding(path, number, f"names a place of one machine or registry: {found[0]}")


SECTION = re.compile(r"## (Unreleased|\d+\.\d+\.\d+ \(\d{4}-\d{2}-\d{2}\))$")


def changelog(tree: Tree) -> Findings:
    """One line for each change: `- Words, that end with a full stop.`, under its release."""
    path = Path("CHANGELOG.md")
    if path not in tree.text:
        yield Finding(path, 1, "there is no changelog")
        return
    lines = tree.text[path].splitlines()
    if lines[:1] != ["# Changelog"]:
        yield Finding(path, 1, "begins with another line than '# Changelog'")
    headings = [(n, line) for n, line in enumerate(lines, 1) if line.startswith("## ")]
    if not headings or headings[0][1] != "## Unreleased":
        yield Finding(path, 1, "the first section is not Unreleased")
        return
    for number, line in headings:
        if not SECTION.match(line):
            yield Finding(path, number, "a section is '## Unreleased' or '## 1.2.3 (2026-01-31)'")
    for number, line in enumerate(lines, 1):
        if number <= headings[0][0] or not line or line.startswith("#"):
            continue
        if not line.startswith(("- ", "  ")):
            yield Finding(path, number, "neither an entry ('- ...') nor its continuation")
        following = lines[number] if number < len(lines) else ""
        if not following.startswith("  ") and not line.endswith("."):
            yield Finding(path, number, "an entry ends without a full stop")


RULES: list[Callable[[Tree], Findings]] = [
    c_arrows,
    c_dead,
    c_functions,
    python_arrows,
    python_dead,
    shape,
    leftovers,
    changelog,
]


def findings(root: Path) -> list[str]:
    """Every breach of a house rule under `root`, as `path:line: words`."""
    tree = Tree(root)
    return [f"{f.path}:{f.line}: {f.words}" for rule in RULES for f in sorted(rule(tree))]


def main() -> int:
    found = findings(Path(__file__).resolve().parent.parent)
    print("\n".join(found) if found else "tidy")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
