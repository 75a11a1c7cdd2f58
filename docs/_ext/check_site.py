"""Check built pages: ``python docs/_ext/check_site.py build/docs``.

No link inside the site may lead nowhere, no picture may lack words for those who cannot see it, and no page may ask the
network for anything.
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

#: Attributes by which a browser loads something by itself.
LOADS = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src", "video": "src"}


class Page(HTMLParser):
    """What a page links to, loads, and can be linked to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.wordless: list[str] = []
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take note of a tag."""
        given = dict(attrs)
        self.anchors |= {value for key in ("id", "name") if (value := given.get(key))}
        if tag == "a" and (target := given.get("href")):
            self.links.append(target)
        if (target := given.get(LOADS.get(tag, ""))) and given.get("rel") != "canonical":
            self.loads.append(target)
        if tag == "img" and not (given.get("alt") or "").strip():
            self.wordless.append(given.get("src") or "")


def problems(folder: Path) -> list[str]:
    """Return what is wrong, a line each."""
    pages = {path.resolve(): Page(path) for path in sorted(folder.rglob("*.html")) if "_static" not in path.parts}
    if not pages:
        return [f"{folder} holds no pages: build the site first."]
    found = []
    for path, page in pages.items():
        where = path.relative_to(folder.resolve())
        found += [f"{where}: the picture {source[:80]} has no alt text" for source in page.wordless]
        for target in page.loads:
            if urlsplit(target).scheme not in ("", "data") or target.startswith("//"):
                found.append(f"{where}: {target} would be loaded from the network")
        for target in [*page.links, *page.loads]:
            parts = urlsplit(target)
            if parts.scheme or target.startswith("//"):
                continue
            led_to = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not led_to.is_file():
                found.append(f"{where}: {target} leads nowhere")
            elif led_to.parent.name == "trial" and "=" in parts.fragment:
                continue  # the state of the filters
            elif parts.fragment and led_to in pages and unquote(parts.fragment) not in pages[led_to].anchors:
                found.append(f"{where}: {target} names no place on that page")
    return sorted(set(found))


if __name__ == "__main__":
    if wrong := problems(Path(sys.argv[1])):
        sys.exit("\n".join(wrong))
