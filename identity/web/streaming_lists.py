"""Lists of everything there is: written while they are read, so that ten thousand objects need no more memory than ten.

A short list is an answer like any other. Of a long one the next piece is made when the one before has left.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable

import orjson

from identity.call import Document
from identity.web.endpoint import Reply

PIECE = 50
"""How many objects are read and shown at a time: other requests wait that long."""

ToResponse = Callable[[Document], Awaitable[Document]]


async def reply(name: str, documents: AsyncIterator[Document], to_response: ToResponse) -> Reply:
    """All documents as `{name: [...]}`."""
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
