"""A tiny transformer from scratch, with Hugging Face's Trainer: an iteration is 20 steps of its optimizer.

It reads twelve numbers and learns whether the first six or the last six have the larger sum. Nothing is
downloaded: the model begins with random weights.
"""

import tempfile

import numpy as np
import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

from elastune.adapters.transformers import transformers_trainable

NUMBERS = 20


def make_data(count):
    numbers = np.random.default_rng(0).integers(NUMBERS, size=(count, 12))
    first_wins = numbers[:, :6].sum(axis=1) > numbers[:, 6:].sum(axis=1)
    return [
        {"input_ids": torch.tensor(row), "labels": torch.tensor(int(label))}
        for row, label in zip(numbers, first_wins, strict=True)
    ]


def make(config):
    shape = BertConfig(
        vocab_size=NUMBERS,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=16,
        hidden_dropout_prob=config["dropout"],
    )
    args = TrainingArguments(
        output_dir=tempfile.gettempdir(),  # nothing is written there
        learning_rate=config["lr"],
        weight_decay=config["weight_decay"],
        per_device_train_batch_size=64,
        max_steps=400,
        warmup_steps=20,
        dataloader_pin_memory=False,
    )
    data = make_data(2400)
    return Trainer(
        model=BertForSequenceClassification(shape),
        args=args,
        train_dataset=data[:2000],
        eval_dataset=data[2000:],
        compute_metrics=lambda told: {"accuracy": (told.predictions.argmax(axis=1) == told.label_ids).mean()},
    )


train = transformers_trainable(make, steps=20)
