"""Keras 3 on torch; `History` is what it recorded."""

import json
import os
from pathlib import Path

os.environ["KERAS_BACKEND"] = "torch"

import keras
import numpy as np

rng = np.random.default_rng(1)
x, y = rng.normal(size=(64, 4)), rng.normal(size=(64, 1))
model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(1)])
model.compile(optimizer="sgd", loss="mse")
history = model.fit(x, y, epochs=3, batch_size=16, validation_split=0.25, verbose=0).history
expected = {
    name: {str(3 * (epoch + 1)): value for epoch, value in enumerate(values)}
    for name, values in history.items()
}
Path("expected.json").write_text(json.dumps(expected))
