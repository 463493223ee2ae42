"""Handwritten digits: a small network on scikit-learn's 1,797 images, trained by a gang of any size.

One iteration is one epoch over the training images, each of them five times: as it is, and shifted by a pixel
up, down, left and right. `worker.batches`, `worker.backward` and `worker.mean` make a gang of four learn what
one worker would.

**Pace.** A laptop has a few cores, and eight slots that compute all the time would only get in each other's
way. So that it can show what a cluster does, an iteration lasts here as long as `pace` in the configuration
says: it trains for real, for a tenth of a second or so, and sleeps for the rest, as if every slot were a
machine of its own that is busy for `pace` seconds, and `n` of them together `n ** 0.9` times as fast. Without
`pace` it is as fast as it can be. A trainable of your own needs nothing of the kind.
"""

import time

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch.nn import functional

import elastune

BATCH = 128
SHIFTS = ((0, 0), (-1, 0), (1, 0), (0, -1), (0, 1))


def load_images():
    """Two thirds to train on, one third to test."""
    pixels, digits = load_digits(return_X_y=True)
    images, labels = torch.tensor(pixels, dtype=torch.float32).reshape(-1, 8, 8) / 16, torch.tensor(digits)
    train, test, train_labels, test_labels = train_test_split(
        images, labels, test_size=1 / 3, stratify=digits, random_state=0
    )
    shifted = torch.cat([torch.roll(train, shift, dims=(1, 2)) for shift in SHIFTS])
    return (shifted.flatten(1), train_labels.repeat(len(SHIFTS))), (test.flatten(1), test_labels)


TRAIN, TEST = load_images()  # once per process; trials come and go


class Digits(elastune.Trainable):
    def setup(self, config, worker):
        self.config, self.worker = config, worker
        width = config["width"]
        model = torch.nn.Sequential(
            torch.nn.Linear(64, width),
            torch.nn.ReLU(),
            torch.nn.Linear(width, width),
            torch.nn.ReLU(),
            torch.nn.Linear(width, 10),
        )
        self.model = worker.wrap(model)
        self.optimizer = torch.optim.SGD(self.model.parameters(), **self.hyperparameters())

    def step(self):
        began = time.monotonic()
        for x, y in self.worker.batches(TRAIN, BATCH):
            self.optimizer.zero_grad()
            self.worker.backward(functional.cross_entropy(self.model(x), y, reduction="sum"))
            self.optimizer.step()
        metrics = self.evaluate()
        paced_s = self.config.get("pace", 0.0) / self.worker.size**0.9
        time.sleep(max(0.0, began + paced_s - time.monotonic()))
        return metrics

    def evaluate(self):
        """Each worker looks at its share of the test images, as one batch."""
        ((x, y),) = self.worker.batches(TEST, len(TEST[1]), shuffle=False)
        with torch.no_grad():
            scores = self.model(x)
        return {
            "accuracy": self.worker.mean((scores.argmax(dim=1) == y).float().mean(), weight=len(y)),
            "loss": self.worker.mean(functional.cross_entropy(scores, y), weight=len(y)),
        }

    def save(self):
        return {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}

    def load(self, state):
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        for group in self.optimizer.param_groups:  # the configuration decides, not the state
            group.update(self.hyperparameters())

    def hyperparameters(self):
        """Of the optimizer."""
        return {name: self.config[name] for name in ("lr", "momentum", "weight_decay")}
