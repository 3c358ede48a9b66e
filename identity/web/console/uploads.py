"""Forms with files (`multipart/form-data`, RFC 7578), parsed as they arrive. Large files go to the disk."""

from __future__ import annotations

import base64
import tempfile
from typing import IO, Final

from python_multipart.exceptions import MultipartParseError
from python_multipart.multipart import MultipartParser, parse_options_header
from tornado.httputil import HTTPServerRequest

_IN_MEMORY_BYTES: Final = 262_144
_MAXIMUM_FIELD_BYTES: Final = 1_048_576
"""The size of all parts together that are not files."""
_MAXIMUM_FILES: Final = 10


def receive(request: HTTPServerRequest) -> dict[str, list[str]] | None:
    """Return the fields of a request, its files as `data:` URLs; None for a form without files."""
    if not is_multipart(request):
        return None
    form = MultipartForm(request.headers["Content-Type"])
    form.write(request.body)
    form.finish()
    del request.headers["Content-Type"]
    for name, file in form.files.items():
        form.fields.setdefault(name, []).append(file.data_url())
    form.close()
    return form.fields


def is_multipart(request: HTTPServerRequest) -> bool:
    """Whether a request is a form that may have files."""
    return request.headers.get("Content-Type", "").startswith("multipart/form-data")


class UploadedFile:
    """A file of a form: its stated media type and its content."""

    def __init__(self, media_type: str) -> None:
        self.media_type = media_type
        self.content: IO[bytes] = tempfile.SpooledTemporaryFile(_IN_MEMORY_BYTES)  # noqa: SIM115 (closed by the form)

    def data_url(self) -> str:
        """Return the file as a `data:` URL (RFC 2397); empty for an empty file."""
        content = self.content.read()
        return f"data:{self.media_type};base64,{base64.b64encode(content).decode()}" if content else ""


class MultipartForm:
    """A form: `fields` and `files` by name, which are empty if the form is malformed."""

    def __init__(self, content_type: str) -> None:
        self.fields: dict[str, list[str]] = {}
        self.files: dict[str, UploadedFile] = {}
        self._received: list[tuple[str, bytearray]] = []
        self._target: bytearray | UploadedFile = bytearray()
        self._headers: dict[bytes, bytes] = {}
        self._name = self._value = b""
        self._field_bytes = 0
        self.is_complete = False
        boundary = parse_options_header(content_type)[1].get(b"boundary", b"")
        self._parser: MultipartParser | None = self._new_parser(boundary) if boundary else None

    def _new_parser(self, boundary: bytes) -> MultipartParser:
        return MultipartParser(
            boundary,
            {
                "on_part_begin": self._begin_part,
                "on_header_field": self._header_name,
                "on_header_value": self._header_value,
                "on_header_end": self._end_header,
                "on_headers_finished": self._begin_content,
                "on_part_data": self._content,
                "on_end": self._end,
            },
        )

    def write(self, chunk: bytes) -> None:
        """Parse the next chunk."""
        try:
            if self._parser is not None:
                self._parser.write(chunk)
        except (MultipartParseError, ValueError):
            self._reject()

    def finish(self) -> None:
        """End the form: its fields and files can be read."""
        if not self.is_complete:
            self._reject()
        for name, content in self._received:
            self.fields.setdefault(name, []).append(content.decode("utf-8", "replace"))
        for file in self.files.values():
            file.content.seek(0)

    def close(self) -> None:
        """Delete the files."""
        for file in self.files.values():
            file.content.close()

    def _reject(self) -> None:
        self.close()
        self._parser, self._received, self.files = None, [], {}

    # Callbacks of the parser

    def _end(self) -> None:
        self.is_complete = True

    def _begin_part(self) -> None:
        self._headers = {}

    def _header_name(self, data: bytes, start: int, end: int) -> None:
        self._name += data[start:end]

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _end_header(self) -> None:
        self._headers[self._name.lower()] = self._value
        self._name = self._value = b""

    def _begin_content(self) -> None:
        _, options = parse_options_header(self._headers.get(b"content-disposition", b""))
        name = options.get(b"name", b"").decode("utf-8", "replace")
        if b"filename" not in options:
            self._target = bytearray()
            self._received.append((name, self._target))
            return
        if len(self.files) == _MAXIMUM_FILES or name in self.files:
            raise ValueError("the form has too many files")
        media_type, _ = parse_options_header(self._headers.get(b"content-type", b""))
        self._target = self.files[name] = UploadedFile(media_type.decode("latin-1"))

    def _content(self, data: bytes, start: int, end: int) -> None:
        if isinstance(self._target, UploadedFile):
            self._target.content.write(data[start:end])
            return
        self._field_bytes += end - start
        if self._field_bytes > _MAXIMUM_FIELD_BYTES:
            raise ValueError("the fields of the form are too large")
        self._target += data[start:end]
