"""What a page refers to and says, found by parsing it."""

from __future__ import annotations

import re
from html.parser import HTMLParser

_REFERRING = {"src", "href", "srcset", "action", "data", "poster", "xlink:href"}
_VOID = {"meta", "img", "br", "link", "input", "hr"}


class Page(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.html = html
        self.tags: list[str] = []
        self.references: list[str] = []
        self.handlers: list[str] = []
        self.ids: list[str] = []
        self.words: list[str] = []
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert not self._open, f"left open: {self._open}"

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    @property
    def outside(self) -> list[str]:
        """Whatever would be fetched from elsewhere."""
        styles = re.findall(r"url\(([^)]*)\)|@import[^;]*", self.html)
        fetched = [each.strip("'\"") for each in styles if each]
        return [
            each
            for each in [*self.references, *fetched]
            if not each.startswith(("#", "data:image/png;base64,"))
        ]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in _VOID:
            self._open.append(tag)
        for name, value in attrs:
            if name in _REFERRING:
                self.references.append(value or "")
            elif name.startswith("on"):
                self.handlers.append(f"{name}={value}")
            elif name == "id":
                self.ids.append(value or "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in _VOID:
            self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self._open, f"</{tag}> closes nothing"
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] not in {"script", "style"}:
            self.words.append(data)
