"""Server-sent events: the data of each event, from bytes that arrive in any pieces."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator


async def event_data(chunks: AsyncIterable[bytes]) -> AsyncIterator[str]:
    """Yield the data of each event as soon as its closing blank line is there.

    Lines end in LF or CRLF. They are cut in bytes, not in text: text has more line breaks than the protocol (U+2028
    among them), and models do write those. Comments and fields other than `data` are passed over; an event that the
    stream does not finish is dropped. Raises UnicodeDecodeError for data that is not UTF-8.
    """
    data: list[bytes] = []
    async for line in _lines(chunks):
        if line.startswith(b"data:"):
            data.append(line.removeprefix(b"data:").removeprefix(b" "))
        elif not line and data:
            yield b"\n".join(data).decode("utf-8")
            data.clear()


async def _lines(chunks: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    """Finished lines, without their ends."""
    pending = b""
    async for chunk in chunks:
        *lines, pending = (pending + chunk).split(b"\n")
        for line in lines:
            yield line.removesuffix(b"\r")
