"""Getting code objects out of whatever holds them.

A HIP compiler leaves them in one of these forms, all of which are read here:
  * a bare code object, an ELF file for the machine AMDGPU;
  * a clang offload bundle: a magic string, a table of (offset, size, target), then the code objects;
  * a compressed bundle (magic CCOB): zlib or zstd over such a bundle;
  * an offload binary (magic 10 FF 10 AD): string tables and images, as the newer driver embeds them;
  * a host object, library or executable with bundles in .hip_fatbin or offload binaries in .llvm.offloading;
  * a static library of host objects.
"""

from __future__ import annotations

import ctypes
import shutil
import struct
import subprocess
import sys
import zlib
from collections.abc import Generator, Iterator
from dataclasses import dataclass

from .elf import EM_AMDGPU, Elf

BUNDLE_MAGIC = b"__CLANG_OFFLOAD_BUNDLE__"
COMPRESSED_MAGIC = b"CCOB"
OFFLOAD_BINARY_MAGIC = b"\x10\xff\x10\xad"
ARCHIVE_MAGIC = b"!<arch>\n"


class BundleError(ValueError):
    """A container that cannot be read."""


@dataclass(frozen=True)
class Image:
    """A code object and the target that its container names ("" if it names none)."""

    target: str
    data: bytes


def images(data: bytes) -> Iterator[Image]:
    """Every AMDGPU code object in `data`."""
    if data.startswith(b"\x7fELF"):
        yield from _in_elf(data)
    elif data.startswith(ARCHIVE_MAGIC):
        for member in _archive_members(data):
            if member.startswith(b"\x7fELF"):
                yield from _in_elf(member)
    elif data.startswith((BUNDLE_MAGIC, COMPRESSED_MAGIC, OFFLOAD_BINARY_MAGIC)):
        yield from _in_section(data)


def _in_elf(data: bytes) -> Iterator[Image]:
    elf = Elf(data)
    if elf.machine == EM_AMDGPU:
        yield Image("", data)
        return
    for section in elf.sections:
        if section.name in (".hip_fatbin", ".llvm.offloading") or section.name.startswith(".hip_fatbin"):
            yield from _in_section(elf.content(section))


def _in_section(data: bytes) -> Iterator[Image]:
    """Containers one after another, with padding in between."""
    at = 0
    while True:
        starts = [data.find(magic, at) for magic in (BUNDLE_MAGIC, COMPRESSED_MAGIC, OFFLOAD_BINARY_MAGIC)]
        starts = [start for start in starts if start >= 0]
        if not starts:
            return
        at = min(starts)
        try:
            if data.startswith(BUNDLE_MAGIC, at):
                size = yield from _in_bundle(data[at:])
            elif data.startswith(COMPRESSED_MAGIC, at):
                bundle, size = _decompress(data[at:])
                yield from _in_bundle(bundle)
            else:
                size = yield from _in_offload_binary(data[at:])
        except struct.error as error:
            raise BundleError("an offload bundle ends early") from error
        at += max(size, 4)


def _in_bundle(data: bytes) -> Generator[Image, None, int]:
    """Yields the images of one uncompressed bundle; returns its size."""
    at = len(BUNDLE_MAGIC)
    (count,) = struct.unpack_from("<Q", data, at)
    at, end = at + 8, at + 8
    for _ in range(count):
        offset, size, length = struct.unpack_from("<QQQ", data, at)
        target = data[at + 24 : at + 24 + length].decode()
        at += 24 + length
        end = max(end, at, offset + size)
        content = data[offset : offset + size]
        # Host entries are empty; device entries of a relocatable build may hold bitcode.
        if content.startswith(b"\x7fELF") and Elf(content).machine == EM_AMDGPU:
            yield Image(_target_of_triple(target), content)
    return end


def _in_offload_binary(data: bytes) -> Generator[Image, None, int]:
    """Yields the images of one offload binary; returns its size. Layout: llvm/Object/OffloadBinary.h."""
    size: int
    _magic, version, size, entry_offset, _entry_size = struct.unpack_from("<IIQQQ", data)
    if version > 1:
        raise BundleError(f"offload binary of version {version} is not supported")
    _kind, _offload, _flags, strings, count, image, image_size = struct.unpack_from("<HHIQQQQ", data, entry_offset)
    table = {}
    for index in range(count):
        key, value = struct.unpack_from("<QQ", data, strings + 16 * index)
        table[_c_string(data, key)] = _c_string(data, value)
    content = data[image : image + image_size]
    if content.startswith((BUNDLE_MAGIC, COMPRESSED_MAGIC)):
        yield from _in_section(content)
    elif content.startswith(b"\x7fELF") and Elf(content).machine == EM_AMDGPU:
        yield Image(table.get("arch", ""), content)
    return size


def _decompress(data: bytes) -> tuple[bytes, int]:
    """The bundle inside a compressed one, and the size of the latter."""
    version, method = struct.unpack_from("<HH", data, 4)
    if version == 1:
        size, (plain_size, _hash), start = len(data), struct.unpack_from("<IQ", data, 8), 20
    elif version == 2:
        (size, plain_size, _hash), start = struct.unpack_from("<IIQ", data, 8), 24
    elif version == 3:
        (size, plain_size, _hash), start = struct.unpack_from("<QQQ", data, 8), 32
    else:
        raise BundleError(f"compressed offload bundle of version {version} is not supported")
    body = data[start:size]
    if method == 0:
        unpacker = zlib.decompressobj()
        plain = unpacker.decompress(body)
        if version == 1:
            size = len(data) - len(unpacker.unused_data)
    elif method == 1:
        plain = _zstd(body, plain_size)
    else:
        raise BundleError(f"compression method {method} of an offload bundle is not supported")
    if len(plain) != plain_size:
        raise BundleError(f"an offload bundle unpacks to {len(plain)} bytes, not {plain_size} as it says")
    return plain, size if version > 1 or method == 0 else _skip_version_1(data)


def _skip_version_1(data: bytes) -> int:
    """Version 1 does not state its size: the next magic number ends it."""
    following = data.find(COMPRESSED_MAGIC, 4)
    return len(data) if following < 0 else following


def _zstd(data: bytes, plain_size: int) -> bytes:
    if sys.version_info >= (3, 14):
        from compression import zstd

        return zstd.decompress(data)
    try:
        library = ctypes.CDLL("libzstd.so.1")
    except OSError:
        library = None
    if library is not None:
        library.ZSTD_decompress.restype = ctypes.c_size_t
        library.ZSTD_decompress.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]
        library.ZSTD_isError.argtypes = [ctypes.c_size_t]
        library.ZSTD_findFrameCompressedSize.restype = ctypes.c_size_t
        library.ZSTD_findFrameCompressedSize.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
        frame = library.ZSTD_findFrameCompressedSize(data, len(data))
        buffer = ctypes.create_string_buffer(plain_size)
        size = frame if library.ZSTD_isError(frame) else library.ZSTD_decompress(buffer, plain_size, data, frame)
        if library.ZSTD_isError(size):
            raise BundleError("a compressed offload bundle is damaged")
        return buffer.raw[:size]
    if tool := shutil.which("zstd"):
        return subprocess.run([tool, "-dc"], input=data, capture_output=True, check=True).stdout
    raise BundleError("a compressed offload bundle needs libzstd.so.1 or the zstd program")


def _target_of_triple(text: str) -> str:
    """`hipv4-amdgcn-amd-amdhsa--gfx942:xnack-` -> `gfx942:xnack-`."""
    at = text.find("gfx")
    return text[at:] if at >= 0 else ""


def _archive_members(data: bytes) -> Iterator[bytes]:
    at = len(ARCHIVE_MAGIC)
    while at + 60 <= len(data):
        size = int(data[at + 48 : at + 58])
        yield data[at + 60 : at + 60 + size]
        at += 60 + size + size % 2


def _c_string(data: bytes, at: int) -> str:
    return data[at : data.index(b"\0", at)].decode()
