"""Strings of variable length lie in global heaps, which HDF5 trusts: a free space of size zero in one makes it read in
circles for ever (seen with 2.0.0), and nothing can interrupt it. So heaps are walked here before such a string is read.

    header   "GCOL", version 1, 3 zeros, size of the collection
    objects  index (2 bytes; 0 is free space), references (2), reserved (4), size (8), and the object, padded to 8 bytes
"""

from __future__ import annotations

import mmap
import struct

from fdglm_fast.errors import DataError
from fdglm_fast.files import printable

_SIGNATURE = b"GCOL\x01\0\0\0"
_HEADER = 16


def check_heaps(path: str) -> None:
    """DataError unless the objects of every global heap in the file follow one another to the end of the heap."""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        start = content.find(_SIGNATURE)
        while start >= 0:
            if not _is_sound(content, start):
                raise DataError(f"'{printable(path)}' is damaged: a heap of strings at byte {start} has no end.")
            start = content.find(_SIGNATURE, start + _HEADER)


def _is_sound(content: mmap.mmap, start: int) -> bool:
    if start + _HEADER > len(content):
        return False
    (size,) = struct.unpack_from("<Q", content, start + 8)
    place, end = start + _HEADER, start + size
    if size < _HEADER or end > len(content):
        return False
    while end - place >= _HEADER:
        index, length = struct.unpack_from("<H6xQ", content, place)
        step = length if index == 0 else _HEADER + (length + 7) // 8 * 8
        if step < _HEADER or place + step > end:
            return False
        place += step
    return True
