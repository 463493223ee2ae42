"""Numpy's data types as text and back, if their bytes are their values: no objects, nothing foreign."""

from __future__ import annotations

import ast
import warnings
from typing import Any

import numpy as np


def dtype_to_text(dtype: np.dtype[Any]) -> str | None:
    """None: the bytes of this type do not tell its values."""
    if dtype.hasobject or dtype.kind not in "?biufcSUmMV":
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about metadata of a type, which are not part of its values
        text = repr(np.lib.format.dtype_to_descr(dtype))
    try:
        return text if text_to_dtype(text) == dtype else None
    except (ValueError, TypeError, SyntaxError):
        return None


def text_to_dtype(text: str) -> np.dtype[Any]:
    dtype = np.lib.format.descr_to_dtype(ast.literal_eval(text))
    if dtype.hasobject:
        raise ValueError(f"arrays of {text} hold objects")
    return dtype
