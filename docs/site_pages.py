"""Adds pages to the site that lie elsewhere in the project; MkDocs calls it while it builds."""

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
PAGES = {
    "contributing.md": "CONTRIBUTING.md",
    "changelog.md": "CHANGELOG.md",
    "benchmarks.md": "benchmarks/README.md",
}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages, with links that hold from their new place."""
    for page, source in PAGES.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        text = re.sub(r"\]\((?:\.\./)?docs/", "](", text)
        files.append(File.generated(config, page, content=text))
    return files
