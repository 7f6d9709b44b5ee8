"""The part of lxml that reading an IR needs, for a Pyodide without lxml: expat of the standard library."""

from __future__ import annotations

from typing import Any
from xml.parsers import expat


class XMLSyntaxError(SyntaxError):
    pass


class _Element(list):
    __hash__ = object.__hash__

    def __init__(self, tag: str, attrib: dict[str, str], line: int) -> None:
        super().__init__()
        self.tag, self.attrib, self.sourceline = tag, attrib, line
        self.text: str | None = None

    def __eq__(self, other: object) -> bool:
        return self is other

    def __bool__(self) -> bool:
        return True

    def get(self, name: str, default: Any = None) -> Any:
        return self.attrib.get(name, default)


class QName:
    def __init__(self, element: _Element) -> None:
        self.localname = element.tag.rpartition("}")[2]


class XMLParser:
    def __init__(self, target: Any = None, **options: Any) -> None:
        self.target = target


def fromstring(document: bytes, parser: XMLParser) -> _Element:
    reader = expat.ParserCreate(namespace_separator="}")
    elements: list[_Element] = []
    roots: list[_Element] = []
    target = parser.target

    def start(tag: str, attrib: dict[str, str]) -> None:
        if target is not None:
            target.start(tag, attrib)
        element = _Element(tag, attrib, reader.CurrentLineNumber)
        (elements[-1] if elements else roots).append(element)
        elements.append(element)

    def text(data: str) -> None:
        if not len(elements[-1]):  # text before the first child
            elements[-1].text = (elements[-1].text or "") + data

    reader.StartElementHandler = start
    reader.CharacterDataHandler = text
    reader.EndElementHandler = lambda tag: elements.pop()
    if target is not None:
        reader.StartDoctypeDeclHandler = lambda name, system, public, internal: target.doctype(name, public, system)
    try:
        reader.Parse(document, True)
    except expat.ExpatError as error:
        raise XMLSyntaxError(str(error)) from None
    return roots[0]
