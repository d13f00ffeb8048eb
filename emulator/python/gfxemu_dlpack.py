"""DLPack capsules of device arrays, by ctypes."""
from __future__ import annotations

import ctypes as C

from gfxemu_formats import _TYPES

KDL_ROCM = 10


class _DLDevice(C.Structure):
    _fields_ = [("type", C.c_int32), ("id", C.c_int32)]


class _DLDataType(C.Structure):
    _fields_ = [("code", C.c_uint8), ("bits", C.c_uint8), ("lanes", C.c_uint16)]


class _DLTensor(C.Structure):
    _fields_ = [("data", C.c_void_p), ("device", _DLDevice), ("ndim", C.c_int32), ("dtype", _DLDataType),
                ("shape", C.POINTER(C.c_int64)), ("strides", C.POINTER(C.c_int64)), ("byte_offset", C.c_uint64)]


_Deleter = C.CFUNCTYPE(None, C.c_void_p)


class _Managed(C.Structure):
    _fields_ = [("tensor", _DLTensor), ("context", C.c_void_p), ("deleter", _Deleter)]


class _ManagedVersioned(C.Structure):
    _fields_ = [("major", C.c_uint32), ("minor", C.c_uint32), ("context", C.c_void_p), ("deleter", _Deleter),
                ("flags", C.c_uint64), ("tensor", _DLTensor)]


_exported = {}                                      # address of the managed struct -> what it needs kept alive


@_Deleter
def _delete(address):
    _exported.pop(address, None)


_NAMES = {False: b"dltensor", True: b"dltensor_versioned"}
_api = C.pythonapi
_api.PyCapsule_New.restype, _api.PyCapsule_New.argtypes = C.py_object, [C.c_void_p, C.c_char_p, C.c_void_p]
_valid = C.PYFUNCTYPE(C.c_int, C.c_void_p, C.c_char_p)(("PyCapsule_IsValid", _api))
_pointer = C.PYFUNCTYPE(C.c_void_p, C.c_void_p, C.c_char_p)(("PyCapsule_GetPointer", _api))
_rename = C.PYFUNCTYPE(C.c_int, C.c_void_p, C.c_char_p)(("PyCapsule_SetName", _api))


@C.PYFUNCTYPE(None, C.c_void_p)
def _capsule_gone(capsule):                         # a capsule that no consumer took
    for name in _NAMES.values():
        if _valid(capsule, name):
            _exported.pop(_pointer(capsule, name), None)


def export_capsule(array, max_version, copied):
    """A capsule of a DeviceArray, which it keeps alive until the consumer is done."""
    versioned = max_version is not None and max_version[0] >= 1
    code, bits = array._type.code, array._type.bits
    if code >= 7 and not versioned and not array.legacy_float8:
        code = 1                                    # the consumer may not know float8: its bits
    n = array.ndim
    shape, strides = (C.c_int64 * max(n, 1))(*array.shape), (C.c_int64 * max(n, 1))(*array.strides)
    tensor = _DLTensor(array.ptr, _DLDevice(KDL_ROCM, array.device), n, _DLDataType(code, bits, 1),
                       C.cast(shape, C.POINTER(C.c_int64)), C.cast(strides, C.POINTER(C.c_int64)), 0)
    if versioned:
        managed = _ManagedVersioned(1, min(max_version[1], 1) if max_version[0] == 1 else 1, None, _delete, 2 if copied else 0, tensor)
    else:
        managed = _Managed(tensor, None, _delete)
    address = C.addressof(managed)
    _exported[address] = (managed, shape, strides, array)
    return _api.PyCapsule_New(address, _NAMES[versioned], C.cast(_capsule_gone, C.c_void_p))


class _Imported:
    def __init__(self, managed):
        self.managed = managed

    def __del__(self):
        if self.managed.deleter:
            self.managed.deleter(C.addressof(self.managed))


_USED = {False: b"used_dltensor", True: b"used_dltensor_versioned"}


def import_capsule(capsule):
    """(pointer, shape, dtype, device, strides, owner) of a capsule, which is used up: the arguments of a DeviceArray."""
    for versioned, name in _NAMES.items():
        if not _valid(id(capsule), name):
            continue
        managed = (_ManagedVersioned if versioned else _Managed).from_address(_pointer(id(capsule), name))
        t = managed.tensor
        if t.device.type != KDL_ROCM:
            raise BufferError(f"not a ROCm tensor (device type {t.device.type})")
        dtype = next((x.name for x in _TYPES.values() if (x.code, x.bits) == (t.dtype.code, t.dtype.bits)), None)
        if dtype is None or t.dtype.lanes != 1:
            raise BufferError(f"unknown element type (code {t.dtype.code}, {t.dtype.bits} bits, {t.dtype.lanes} lanes)")
        _rename(id(capsule), _USED[versioned])
        shape = [t.shape[i] for i in range(t.ndim)]
        strides = [t.strides[i] for i in range(t.ndim)] if t.strides else None
        return (t.data or 0) + t.byte_offset, shape, dtype, t.device.id, strides, _Imported(managed)
    raise BufferError("not an unused DLPack capsule")
