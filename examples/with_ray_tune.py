"""A function for Ray Tune on handwritten digits: softmax regression that reports and saves every epoch.

Only its import differs from Ray Tune's. `train` is for a job; a script keeps its `Tuner` instead.
"""

import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.utils import shuffle

from elastune.adapters import ray_tune as tune


def train_digits(config):
    pixels, digits = load_digits(return_X_y=True)
    x, y = pixels[:1200] / 16, np.eye(10)[digits[:1200]]
    weights, velocity = np.zeros((64, 10)), np.zeros((64, 10))
    checkpoint = tune.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as folder:
            saved = np.load(Path(folder, "model.npz"))
            weights, velocity = saved["weights"], saved["velocity"]
    while True:
        for rows in np.array_split(shuffle(np.arange(1200)), 1200 // config["batch"]):
            scores = np.exp(x[rows] @ weights)
            error = scores / scores.sum(axis=1, keepdims=True) - y[rows]
            velocity = config["momentum"] * velocity - config["lr"] * x[rows].T @ error / len(rows)
            weights = weights + velocity
        guesses = (pixels[1200:] / 16 @ weights).argmax(axis=1)
        with tempfile.TemporaryDirectory() as folder:
            np.savez(Path(folder, "model.npz"), weights=weights, velocity=velocity)
            saved = tune.Checkpoint.from_directory(folder)
            tune.report({"accuracy": np.mean(guesses == digits[1200:])}, checkpoint=saved)


train = tune.trainable(train_digits)
