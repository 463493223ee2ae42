"""Boosted trees on handwritten digits, with the adapter for XGBoost: an iteration is five boosting rounds."""

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from elastune.adapters.xgboost import xgboost_trainable


def make(config):
    pixels, digits = load_digits(return_X_y=True)
    x, test_x, y, test_y = train_test_split(pixels, digits, test_size=1 / 3, stratify=digits, random_state=0)
    params = {"objective": "multi:softprob", "num_class": 10, "eval_metric": ["mlogloss", "merror"], **config}
    return params, (x, y), (test_x, test_y)


train = xgboost_trainable(make, rounds=5)
