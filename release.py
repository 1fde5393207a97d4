"""Makes what is published, and tries it: `tox run -e release`.

It uploads and tags nothing. What is left to do by hand is printed at the end.
"""

import re
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parent
PLACEHOLDER = "example.invalid"
DIST = ROOT / "dist"


def find_faults(version: str) -> list[str]:
    """Returns what a release must not have: a place that is not known, no date, open changes."""
    faults = []
    if PLACEHOLDER in (ROOT / "setup.py").read_text(encoding="utf-8"):
        faults.append("setup.py: HOME is still the placeholder; fill in the project's address")
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    if not re.search(
        rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$", changelog, re.MULTILINE
    ):
        faults.append(f"CHANGELOG.md: no heading '## [{version}] - YYYY-MM-DD'")
    changes = subprocess.run(
        ["git", "status", "--porcelain"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    if changes.stdout:
        faults.append("changes that are not committed; see `git status`")
    return faults


def run(*words: str | Path, cwd: Path = ROOT) -> None:
    """Runs a command and shows it; ends the release where it fails."""
    print("$", *words, flush=True)
    subprocess.run([str(word) for word in words], cwd=cwd, check=True)


def build() -> Path:
    """Builds sdist and wheel, checks both, and returns the wheel."""
    for old in DIST.glob("*"):
        old.unlink()
    run(sys.executable, "-m", "build", "--outdir", DIST)
    files = sorted(DIST.iterdir())
    run(sys.executable, "-m", "twine", "check", "--strict", *files)
    (wheel,) = DIST.glob("*.whl")
    run(sys.executable, "-m", "check_wheel_contents", wheel)
    return wheel


def try_wheel(wheel: Path) -> None:
    """Installs a wheel into a bare environment, and runs the quick sweep there."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        venv.create(place / "env", with_pip=True)
        programs = place / "env" / "bin"
        run(programs / "python", "-m", "pip", "install", "--quiet", wheel)
        run(programs / "tfbench", "--version", cwd=place)
        run(programs / "tfbench", "sweep", "--quick", cwd=place)


def main() -> None:
    """Builds and tries a release, and says what is left to do."""
    source = (ROOT / "tfbench" / "__init__.py").read_text(encoding="utf-8")
    (version,) = re.findall(r'^__version__ = "(.+)"$', source, re.MULTILINE)
    faults = find_faults(version)
    for fault in faults:
        print("not ready:", fault)
    if faults and "--rehearse" not in sys.argv:
        sys.exit(1)
    try_wheel(build())
    if faults:
        sys.exit("The build works. Mend what is not ready before you publish it.")
    print(f"\nLeft to do:\n  git tag -s v{version} && git push --tags\n  twine upload dist/*")


if __name__ == "__main__":
    main()
