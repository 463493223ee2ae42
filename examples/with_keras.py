"""A Keras model on handwritten digits, computed by torch: an iteration is one epoch of `fit`."""

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from elastune.adapters.keras import keras_trainable


def make(config):
    import keras  # noqa: PLC0415  after the adapter has chosen the backend

    model = keras.Sequential(
        [
            keras.Input((64,)),
            keras.layers.Dense(config["width"], activation="relu"),
            keras.layers.Dropout(config["dropout"]),
            keras.layers.Dense(10, activation="softmax"),
        ]
    )
    model.compile(
        optimizer=keras.optimizers.Adam(config["lr"]),
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
    )
    pixels, digits = load_digits(return_X_y=True)
    x, test_x, y, test_y = train_test_split(pixels / 16, digits, test_size=1 / 3, random_state=0)
    return model, (x, y), (test_x, test_y)


train = keras_trainable(make, backend="torch", batch_size=64)
