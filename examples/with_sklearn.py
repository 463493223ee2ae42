"""A network of scikit-learn on handwritten digits, with the adapter: an iteration is one pass over them."""

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

from elastune.adapters.sklearn import sklearn_trainable


def make(config):
    pixels, digits = load_digits(return_X_y=True)
    x, test_x, y, test_y = train_test_split(pixels / 16, digits, test_size=1 / 3, random_state=0)
    model = MLPClassifier([config["width"]], learning_rate_init=config["lr"], alpha=config["alpha"])
    return model, (x, y), (test_x, test_y)


train = sklearn_trainable(make, batch=32)
