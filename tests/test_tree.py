"""The tree is the diagram: the README lists every file, no file is long, names and text stay plain."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LISTED = ("mulo_ray", "jobs", "cluster", "docs")  # listed file by file; tests/ mirrors them and is one line
VAGUE = re.compile(r"(^|_)(utils?|misc|helpers?|managers?)(_|$)")
MAX_LINES = 300


def _files() -> list[Path]:
    """Every file of the tree that git does not ignore, relative to the root."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if found.returncode:
        pytest.skip("not a git checkout: what belongs to the tree cannot be told")
    return [path for path in map(Path, sorted(set(found.stdout.split("\0")) - {""})) if (ROOT / path).is_file()]


def readme_tree(text: str) -> set[str]:
    """The paths of the README's tree: an indented list in which a name that ends in / is a folder."""
    block = re.search(r"<!-- tree -->\s*```\w*\n(.*?)```", text, re.DOTALL)
    assert block, "README.md has no tree between <!-- tree --> and a code fence"
    paths, folders = set(), []
    for line in block.group(1).splitlines():
        name = line.split()[0] if line.strip() else ""
        if not name:
            continue
        depth = (len(line) - len(line.lstrip())) // 2
        folders = folders[:depth]
        path = "/".join([*folders, name.rstrip("/")])
        if name.endswith("/"):
            folders.append(name.rstrip("/"))
        else:
            assert len(line.split()) > 1, f"README tree: {path} has no word on what it is"
            paths.add(path)
    return paths


def _deserves_a_line(path: Path) -> bool:
    return path.parts[0] in LISTED and path.name not in ("__init__.py", "py.typed")


def test_readme_lists_every_file_and_no_other() -> None:
    listed = readme_tree((ROOT / "README.md").read_text(encoding="utf-8"))
    present = {path.as_posix() for path in _files() if _deserves_a_line(path)}
    assert present - listed == set(), "files without a line in README's tree"
    assert listed - present == set(), "lines in README's tree without a file"


def test_readme_tree_is_read_rightly() -> None:
    text = "<!-- tree -->\n```\na/\n  b.py   one\n  c/\n    d.py   two\n  e.py  three\nf/\n  g.md  four\n```"
    assert readme_tree(text) == {"a/b.py", "a/c/d.py", "a/e.py", "f/g.md"}


def test_files_are_short_ascii_and_named_for_what_they_are() -> None:
    faults = []
    for path in _files():
        if path.suffix == ".py":
            text = (ROOT / path).read_text(encoding="utf-8")
            lines = len(text.splitlines())
            faults += [f"{path}: {lines} lines, {MAX_LINES} allowed"] * (lines > MAX_LINES)
            faults += [f"{path}: not ASCII"] * (not text.isascii())
        faults += [f"{path}: {part!r} says nothing" for part in path.parts if VAGUE.search(Path(part).stem)]
    assert faults == []


def test_cited_documents_sections_and_cases_exist() -> None:
    """A citation leads somewhere: docs/method.md section 2, docs/reports.md C7 (in short: reports C7)."""
    cases = set(re.findall(r"^\| ([A-D]\d+) \|", (ROOT / "docs/reports.md").read_text(encoding="utf-8"), re.MULTILINE))
    sections = set(re.findall(r'id="section-(\d)"', (ROOT / "docs/method.md").read_text(encoding="utf-8")))
    faults = []
    for path in (path for path in _files() if path.suffix in (".py", ".md")):
        text = (ROOT / path).read_text(encoding="utf-8")
        faults += [f"{path}: no {name}" for name in re.findall(r"docs/\w+\.md", text) if not (ROOT / name).is_file()]
        faults += [f"{path}: no section {n}" for n in re.findall(r"method\.md section (\d)", text) if n not in sections]
        for name, case in re.findall(r"\b(reports(?:\.md)?) ([A-D]\d{1,2})\b", text, re.IGNORECASE):
            faults += [f"{path}: no report {case}"] * (case not in cases)
            faults += [f"{path}: cite docs/reports.md {case}, not {name} {case}"] * (name != name.lower())
        short = re.search(r"\breports [A-D]\d", text) and "docs/reports.md" not in text and path.name != "reports.md"
        faults += [f"{path}: name docs/reports.md once"] * bool(short)
    assert faults == []


@pytest.mark.parametrize("name", ["utils", "image_utils", "misc", "test_helpers", "cache_manager", "util"])
def test_vague_names_are_seen(name: str) -> None:
    assert VAGUE.search(name)


def test_plain_names_are_left_alone() -> None:
    assert not any(VAGUE.search(name) for name in ("mutual", "utilisation", "permission", "damage"))
