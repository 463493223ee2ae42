"""States of every kind, drawn by hypothesis, and equality that knows types, NaN and bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

TORCH_DTYPES = [
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64, torch.complex128,
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16,
    torch.float8_e4m3fn,
]  # fmt: skip

dtypes = (
    hnp.boolean_dtypes()
    | hnp.integer_dtypes(endianness="?")
    | hnp.floating_dtypes(endianness="?")
    | hnp.complex_number_dtypes()
    | hnp.byte_string_dtypes()
    | hnp.unicode_string_dtypes()
    | hnp.datetime64_dtypes()
    | hnp.timedelta64_dtypes()
    | hnp.array_dtypes()
)
arrays = hnp.arrays(dtype=dtypes, shape=hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))


@st.composite
def tensors(draw: st.DrawFn) -> torch.Tensor:
    dtype = draw(st.sampled_from(TORCH_DTYPES))
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 1000)))
    raw = torch.randint(0, 2, (*shape, dtype.itemsize), generator=generator, dtype=torch.uint8)
    tensor = raw.view(dtype).reshape(shape)
    return tensor.transpose(0, -1) if tensor.ndim > 1 and draw(st.booleans()) else tensor


leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.complex_numbers()
    | st.text(st.characters())
    | st.text(st.sampled_from("\ud83d\ude00a"))
    | st.binary()
    | arrays
    | arrays.filter(lambda array: array.size > 0).map(lambda array: array.flat[0])
    | tensors()
)
states = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text(max_size=5) | st.integers(), inner, max_size=4)
    ),
    max_leaves=12,
)


def same(first: Any, second: Any) -> bool:
    """Of the same types, with the same bits."""
    if type(first) is not type(second):
        return False
    if isinstance(first, dict):
        return same(list(first.items()), list(second.items()))
    if isinstance(first, list | tuple):
        return len(first) == len(second) and all(map(same, first, second))
    if isinstance(first, torch.Tensor):
        return first.dtype == second.dtype and first.shape == second.shape and _bits(first) == _bits(second)
    if isinstance(first, np.ndarray | np.generic):
        return (first.dtype, first.shape, first.tobytes()) == (second.dtype, second.shape, second.tobytes())
    return bool(first == second) if isinstance(first, int) else repr(first) == repr(second)


def _bits(tensor: torch.Tensor) -> bytes:
    return (
        bytes(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()) if tensor.numel() else b""
    )
