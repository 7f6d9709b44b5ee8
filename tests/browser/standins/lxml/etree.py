"""The part of lxml that reading and writing IRs needs, for a Pyodide without lxml: the standard library's trees."""

from __future__ import annotations

from copy import deepcopy
from typing import Any
from xml.etree import ElementTree as ET
from xml.parsers import expat

indent, SubElement, XMLSyntaxError = ET.indent, ET.SubElement, SyntaxError


def tostring(element: ET.Element, encoding: str) -> bytes:
    return ET.tostring(element, encoding).replace(b" />", b"/>")


class _Element(ET.Element):
    sourceline: int | None = None
    __copy__ = deepcopy

    def __bool__(self) -> bool:
        return True

    def makeelement(self, tag: str, attrib: dict[str, str]) -> _Element:
        return _Element(tag, attrib)

    def iterchildren(self, tag: str) -> Any:
        name = tag.rpartition("}")[2]
        return (child for child in self if name in ("*", child.tag.rpartition("}")[2]))


Element = _Element


class QName:
    def __init__(self, element: _Element) -> None:
        self.localname = element.tag.rpartition("}")[2]


class XMLParser:
    def __init__(self, target: Any = None, **options: Any) -> None:
        self.target = target


def fromstring(document: bytes | str, parser: XMLParser | None = None) -> _Element:
    reader = expat.ParserCreate(namespace_separator="}")
    builder = ET.TreeBuilder(element_factory=_Element)
    target = None if parser is None else parser.target

    def start(tag: str, attrib: dict[str, str]) -> None:
        if target is not None:
            target.start(tag, attrib)
        builder.start(tag, attrib).sourceline = reader.CurrentLineNumber

    reader.StartElementHandler, reader.CharacterDataHandler, reader.EndElementHandler = start, builder.data, builder.end
    if target is not None:
        reader.StartDoctypeDeclHandler = lambda name, system, public, internal: target.doctype(name, public, system)
    try:
        reader.Parse(document, True)
    except expat.ExpatError as error:
        raise XMLSyntaxError(str(error)) from None
    return builder.close()
