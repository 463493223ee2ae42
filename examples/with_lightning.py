"""A LightningModule on handwritten digits, with the adapter for Lightning: an iteration is one epoch."""

import lightning.pytorch as pl
import torch
from sklearn.datasets import load_digits
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from elastune.adapters.lightning import lightning_trainable


class Digits(pl.LightningModule):
    def __init__(self, lr, width, dropout):
        super().__init__()
        self.lr = lr
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(64, width), torch.nn.ReLU(), torch.nn.Dropout(dropout), torch.nn.Linear(width, 10)
        )

    def training_step(self, batch, _):
        x, y = batch
        return functional.cross_entropy(self.layers(x), y)

    def validation_step(self, batch, _):
        x, y = batch
        self.log("accuracy", (self.layers(x).argmax(dim=1) == y).float().mean())

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=self.lr, momentum=0.9)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, step_size=10, gamma=0.5)]


def make(config):
    digits = load_digits()
    data = TensorDataset(torch.tensor(digits.data, dtype=torch.float32) / 16, torch.tensor(digits.target))
    train, test = torch.utils.data.random_split(data, [1200, 597], torch.Generator().manual_seed(0))
    return Digits(**config), DataLoader(train, batch_size=32, shuffle=True), DataLoader(test, batch_size=597)


train = lightning_trainable(make)
