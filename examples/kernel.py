"""A kernel machine that learns in pieces: random features for an RBF kernel and scikit-learn's `partial_fit`.

Written as a generator function: it trains, yields its metrics and a way to save itself, and waits. It needs
no torch. scikit-learn cannot share the work of one model among workers, so it says that more than one slot
is of no use to it; and its models are pickled objects, which the job has to allow (`pickles: true`).
"""

from sklearn.datasets import load_digits
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import SGDClassifier
from sklearn.model_selection import train_test_split

PASSES = 4  # over the training images in one iteration


def train(config, worker, state):
    pixels, digits = load_digits(return_X_y=True)
    features = RBFSampler(gamma=config["gamma"], n_components=400, random_state=worker.seed)
    x, test_x, y, test_y = train_test_split(
        features.fit_transform(pixels / 16), digits, test_size=1 / 3, stratify=digits, random_state=0
    )
    model = SGDClassifier(
        loss=config["loss"], alpha=config["alpha"], average=config["average"], random_state=worker.seed
    )
    if state is not None:
        model = state["model"]

    def save():
        return {"model": model}

    while True:
        for _ in range(PASSES):
            for batch_x, batch_y in worker.batches((x, y), 64):
                model.partial_fit(batch_x, batch_y, classes=range(10))
        yield {"accuracy": model.score(test_x, test_y)}, save


train.most_slots = 1
