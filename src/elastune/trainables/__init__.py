"""Where the metrics of a simulated run come from: formulas, recorded curves, functions of the user."""

from elastune.trainables.curve_table import CurveTable
from elastune.trainables.opening import SYNTHETIC, open_trainable, possible
from elastune.trainables.protocol import Curve, Row, Trainable
from elastune.trainables.reference import CurveFile, Function, Reference, located

__all__ = [
    "SYNTHETIC",
    "Curve",
    "CurveFile",
    "CurveTable",
    "Function",
    "Reference",
    "Row",
    "Trainable",
    "located",
    "open_trainable",
    "possible",
]
