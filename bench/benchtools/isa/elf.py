"""A reader for little-endian ELF64 files: sections, symbols, notes."""

from __future__ import annotations

import struct
from dataclasses import dataclass

EM_AMDGPU = 224
SHT_SYMTAB, SHT_NOTE, SHT_NOBITS, SHT_DYNSYM = 2, 7, 8, 11
STT_FUNC = 2


@dataclass(frozen=True)
class Section:
    name: str
    kind: int
    address: int
    offset: int
    size: int
    link: int


@dataclass(frozen=True)
class Symbol:
    name: str
    kind: int
    section: int
    value: int
    size: int


class ElfError(ValueError):
    """Not an ELF file that we can read."""


class Elf:
    def __init__(self, data: bytes):
        if data[:4] != b"\x7fELF":
            raise ElfError("not an ELF file")
        if data[4] != 2 or data[5] != 1:
            raise ElfError("only little-endian ELF64 is supported")
        self.data = data
        try:
            (self.machine,) = struct.unpack_from("<H", data, 18)
            (self.flags,) = struct.unpack_from("<I", data, 48)
            self.sections = self._read_sections()
        except struct.error as error:
            raise ElfError("the ELF file ends early") from error

    def _read_sections(self) -> list[Section]:
        (table,) = struct.unpack_from("<Q", self.data, 40)
        entry_size, count, names_index = struct.unpack_from("<HHH", self.data, 58)
        if table == 0:
            return []
        raw = []
        for index in range(count):
            raw.append(struct.unpack_from("<IIQQQQII", self.data, table + index * entry_size))
        if count == 0 or names_index >= count:
            return []
        names = self.data[raw[names_index][4] : raw[names_index][4] + raw[names_index][5]]
        return [
            Section(_string(names, name), kind, address, offset, size, link)
            for name, kind, _flags, address, offset, size, link, _info in raw
        ]

    def content(self, section: Section) -> bytes:
        return b"" if section.kind == SHT_NOBITS else self.data[section.offset : section.offset + section.size]

    def sections_named(self, name: str) -> list[Section]:
        return [section for section in self.sections if section.name == name]

    def symbols(self) -> list[Symbol]:
        """The full symbol table where there is one, else the dynamic one."""
        for kind in (SHT_SYMTAB, SHT_DYNSYM):
            for section in self.sections:
                if section.kind == kind:
                    return self._read_symbols(section)
        return []

    def _read_symbols(self, section: Section) -> list[Symbol]:
        names = self.content(self.sections[section.link])
        symbols = []
        for name, info, _other, index, value, size in struct.iter_unpack("<IBBHQQ", self.content(section)):
            symbols.append(Symbol(_string(names, name), info & 15, index, value, size))
        return symbols

    def notes(self) -> list[tuple[str, int, bytes]]:
        """(owner, type, content) of every note."""
        found = []
        for section in self.sections:
            if section.kind != SHT_NOTE:
                continue
            data, at = self.content(section), 0
            while at + 12 <= len(data):
                name_size, size, kind = struct.unpack_from("<III", data, at)
                at += 12
                owner = data[at : at + name_size].rstrip(b"\0").decode(errors="replace")
                at += -(-name_size // 4) * 4
                found.append((owner, kind, data[at : at + size]))
                at += -(-size // 4) * 4
        return found

    def at_address(self, address: int, size: int) -> bytes | None:
        """`size` bytes as they are loaded at `address`, or None if no section holds them."""
        for section in self.sections:
            inside = section.address <= address and address + size <= section.address + section.size
            if section.address and inside and section.kind != SHT_NOBITS:
                start = section.offset + address - section.address
                return self.data[start : start + size]
        return None


def _string(table: bytes, at: int) -> str:
    return table[at : table.index(b"\0", at)].decode(errors="replace")
