"""Streamed lists: objects are sent while they are read, so that ten thousand need no more memory than ten.

A short list is sent as an ordinary response.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable

import orjson

from identity.call import Document
from identity.web.endpoint import Reply

PIECE = 50
"""The number of objects that are read and rendered at a time, while other requests wait."""

ToResponse = Callable[[Document], Awaitable[Document]]


async def reply(name: str, documents: AsyncIterator[Document], to_response: ToResponse) -> Reply:
    """Return the reply `{name: [...]}` with all documents."""
    first = await _next_piece(documents, to_response)
    if len(first) < PIECE:
        return Reply({name: first})
    return Reply(pieces=_pieces(name, first, documents, to_response))


async def _pieces(
    name: str, first: list[Document], documents: AsyncIterator[Document], to_response: ToResponse
) -> AsyncGenerator[bytes, None]:
    yield b"{" + orjson.dumps(name) + b":[" + orjson.dumps(first, option=orjson.OPT_SORT_KEYS)[1:-1]
    while piece := await _next_piece(documents, to_response):
        yield b"," + orjson.dumps(piece, option=orjson.OPT_SORT_KEYS)[1:-1]
        await asyncio.sleep(0)
    yield b"]}"


async def _next_piece(documents: AsyncIterator[Document], to_response: ToResponse) -> list[Document]:
    piece: list[Document] = []
    async for document in documents:
        piece.append(await to_response(document))
        if len(piece) == PIECE:
            break
    return piece
