"""Arrays of any framework as ``_core.Tensor``: torch and numpy without DLPack, everything else through it.

An adapter knows one framework: how to describe an array to the extension, how to make a new one, and which stream work
on a device belongs to. ``adapter_of`` chooses it by the first argument of a call; all arrays of a call belong to one
framework.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from . import _core, _options, _runtime

HOST = _core.host_memory
_codes = {name: code for code, name in enumerate(_core.dtype_names)}
_SUPPORTED = "float32, bfloat16, float16, float8_e4m3fn, float8_e4m3fnuz, int8"


def _unsupported_dtype(name: str, dtype: object) -> NotImplementedError:
    return NotImplementedError(f"{name} has dtype {dtype}; kernels exist for {_SUPPORTED}")


class Adapter:
    """The interface of a framework."""

    def tensor(self, name: str, array: Any, writable: bool = False) -> _core.Tensor:
        raise NotImplementedError

    def empty(self, shape: Sequence[int], like: Any, dtype: str | None = None) -> Any:
        """A new array on the device of `like`, with its dtype or the one of that name."""
        raise NotImplementedError

    def stream(self, ordinal: int) -> int:
        """The stream, as an integer, that work on that device is ordered on."""
        return 0

    def deliver(self, array: Any, like: Any) -> Any:
        """A result in the form that the framework's users expect."""
        return array

    def __deepcopy__(self, memo: dict[int, Any]) -> Adapter:
        return self  # of a copied cache, say: one framework, one stream


class TorchAdapter(Adapter):
    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.codes = {getattr(torch, name): code for name, code in _codes.items() if hasattr(torch, name)}
        self.hip = torch.version.hip is not None
        self.fake = torch._subclasses.FakeTensor

    def __reduce__(self) -> tuple[Any, ...]:
        return torch_adapter, ()  # a module cannot be pickled

    def tensor(self, name: str, array: Any, writable: bool = False) -> _core.Tensor:
        if not isinstance(array, self.torch.Tensor):
            raise TypeError(f"{name} must be a torch.Tensor like the first argument, got {type(array).__name__}")
        code = self.codes.get(array.dtype)
        if code is None:
            raise _unsupported_dtype(name, array.dtype)
        if array.is_cpu:
            ordinal = HOST
        elif array.is_cuda:
            if not self.hip:
                raise RuntimeError(f"{name} is on {array.device} of a torch built for CUDA; kernels need an AMD GPU and torch for ROCm")
            ordinal = array.get_device()
        else:
            raise ValueError(f"{name} is on {array.device}; tensors must be on an AMD GPU ('cuda' in torch) or on the CPU")
        if isinstance(array, self.fake):
            raise NotImplementedError(
                f"{name} is a FakeTensor, without memory; flash_attention, sage_attention, decode and softmax of tensors can be traced, this cannot"
            )
        if array.is_neg():
            raise ValueError(f"{name} is a view that negates its memory: call .resolve_neg() on it")
        return _core.Tensor(array.data_ptr(), array.shape, array.stride(), code, ordinal)

    def empty(self, shape: Sequence[int], like: Any, dtype: str | None = None) -> Any:
        return self.torch.empty(shape, dtype=like.dtype if dtype is None else getattr(self.torch, dtype), device=like.device)

    def stream(self, ordinal: int) -> int:
        return int(self.torch.cuda.current_stream(ordinal).cuda_stream)


def _empty_numpy(shape: Sequence[int], dtype: Any) -> Any:
    """A new numpy array; bf16 and fp8, which numpy knows by name only after ml_dtypes was imported, included."""
    import numpy

    try:
        return numpy.empty(shape, dtype=dtype)
    except TypeError:
        pass
    try:
        import ml_dtypes

        return numpy.empty(shape, dtype=getattr(ml_dtypes, dtype))
    except ImportError:
        raise NotImplementedError(
            f"numpy has no {dtype} without ml_dtypes: install that, or use arrays of a framework that has it"
        ) from None


class NumpyAdapter(Adapter):
    def tensor(self, name: str, array: Any, writable: bool = False) -> _core.Tensor:
        numpy = sys.modules["numpy"]
        if not isinstance(array, numpy.ndarray):
            raise TypeError(f"{name} must be a numpy.ndarray like the first argument, got {type(array).__name__}")
        if isinstance(array, numpy.ma.MaskedArray):
            raise TypeError(f"{name} is a masked array, whose mask no kernel looks at")
        code = _codes.get(array.dtype.name)
        if code is None:
            raise _unsupported_dtype(name, array.dtype)
        if not array.dtype.isnative:
            raise ValueError(f"{name} has a byte order that is not the machine's")
        size = array.itemsize
        if any(stride % size for stride in array.strides):
            raise ValueError(f"{name} has strides {array.strides} in bytes, not multiples of its {size}-byte elements")
        if writable and not array.flags.writeable:
            raise ValueError(f"{name} is read-only")
        pointer = array.__array_interface__["data"][0]
        return _core.Tensor(pointer, array.shape, [stride // size for stride in array.strides], code, HOST, not writable)

    def empty(self, shape: Sequence[int], like: Any, dtype: str | None = None) -> Any:
        return _empty_numpy(shape, like.dtype if dtype is None else dtype)


# Device types of DLPack: CPU memory, plain or pinned, and ROCm.
_HOST_KINDS = (1, 3, 11)
_ROCM_KIND = 10


@contextlib.contextmanager
def _current_gpu(ordinal: int) -> Iterator[None]:
    """Makes a GPU current for a block: some producers export arrays of the current device only."""
    _runtime.require_gpu(ordinal)
    previous = _core.current_device()
    if previous != ordinal:
        _core.set_current_device(ordinal)
    try:
        yield
    finally:
        if previous != ordinal:
            _core.set_current_device(previous)


class DLPackAdapter(Adapter):
    """Anything with ``__dlpack__``. GPU work runs on ``stream``; the producer orders its own before it."""

    def __init__(self, stream: int) -> None:
        self._stream = stream

    def __reduce__(self) -> tuple[Any, ...]:
        return DLPackAdapter, (0,)  # a stream belongs to its process

    def tensor(self, name: str, array: Any, writable: bool = False) -> _core.Tensor:
        if "numpy" in sys.modules and isinstance(array, sys.modules["numpy"].ndarray):  # a result made by empty()
            return _numpy_adapter.tensor(name, array, writable)
        if not hasattr(array, "__dlpack__") or not hasattr(array, "__dlpack_device__"):
            raise TypeError(f"{name} must be a tensor (torch, numpy or any object with __dlpack__), got {type(array).__name__}")
        kind, ordinal = (int(x) for x in array.__dlpack_device__())
        arguments: dict[str, Any] = {"max_version": (1, 1)}
        if kind not in _HOST_KINDS:
            arguments["stream"] = self._stream
        with _current_gpu(ordinal) if kind == _ROCM_KIND else contextlib.nullcontext():
            try:
                try:
                    capsule = array.__dlpack__(**arguments)
                except TypeError:
                    del arguments["max_version"]  # a producer older than DLPack 1.0
                    capsule = array.__dlpack__(**arguments)
            except BufferError as error:
                raise ValueError(f"{name} cannot be exported: {error}") from error
        try:
            return _core.Tensor.from_capsule(capsule, writable)
        except (ValueError, NotImplementedError) as error:
            raise type(error)(f"{name}: {error}") from None

    def empty(self, shape: Sequence[int], like: Any, dtype: str | None = None) -> Any:
        if int(like.__dlpack_device__()[0]) in _HOST_KINDS:
            return _empty_numpy(shape, dtype or _core.dtype_names[self.tensor("q", like).dtype])
        if hasattr(like, "__array_namespace__"):
            namespace = like.__array_namespace__()
            array = namespace.empty(tuple(shape), dtype=like.dtype if dtype is None else getattr(namespace, dtype), device=like.device)
            self.tensor("the result", array, writable=True)  # some frameworks make arrays that nobody may write to
            return array
        raise NotImplementedError(f"no new array of type {type(like).__name__} can be made: pass out=")

    def stream(self, ordinal: int) -> int:
        return self._stream

    def deliver(self, array: Any, like: Any) -> Any:
        if hasattr(like, "__array_namespace__") and type(array) is not type(like):
            namespace = like.__array_namespace__()
            return namespace.asarray(array)
        return array


_torch_adapter: TorchAdapter | None = None
_numpy_adapter = NumpyAdapter()


def torch_adapter() -> TorchAdapter:
    global _torch_adapter
    if _torch_adapter is None:
        import torch

        _torch_adapter = TorchAdapter(torch)
    return _torch_adapter


def is_torch(array: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(array, getattr(torch, "Tensor", ()))


def adapter_of(name: str, array: Any, stream: int | None) -> Adapter:
    """The adapter of an argument. `stream` is for arrays that are no torch tensors, whose current stream is unknown."""
    if stream is not None:
        stream = _options.integer("stream", stream, 0, 2**64 - 1)
    if is_torch(array):
        if stream is not None:
            raise ValueError("torch tensors run on torch's current stream; use torch.cuda.stream() instead of stream=")
        return torch_adapter()
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(array, numpy.ndarray):
        return _numpy_adapter
    if stream is None:
        module = type(array).__module__.partition(".")[0]
        cupy = sys.modules.get("cupy") if module == "cupy" else None
        stream = int(cupy.cuda.get_current_stream().ptr) if cupy else 0
    adapter = DLPackAdapter(stream)
    if not hasattr(array, "__dlpack__") or not hasattr(array, "__dlpack_device__"):
        raise TypeError(f"{name} must be a tensor (torch, numpy or any object with __dlpack__), got {type(array).__name__}")
    return adapter


def stream_for(adapter: Adapter, ordinal: int) -> int:
    """The stream of a call: the adapter's on a GPU, the null stream on an emulated device."""
    return 0 if ordinal >= _core.first_emulated else adapter.stream(ordinal)


def place(tensor_device: int, device: str | None) -> int:
    """The ordinal that a call runs on: the tensors' GPU, or for host memory the emulated device."""
    if tensor_device == HOST:
        return _runtime.emulated_ordinal(device)
    if device is not None:
        raise ValueError(f"device={device!r} chooses the emulated device of CPU tensors; these tensors are on GPU {tensor_device}")
    return _runtime.require_gpu(tensor_device)
