"""Models and histories that a function on workers returns."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest

from tfmuster import launch

pytestmark = pytest.mark.timeout(120)


class TestHere:
    @pytest.mark.slow
    def test_a_model_comes_back_from_the_chief(self, tmp_path: Path) -> None:
        def train(strategy: Any, size: int, units: int) -> dict[str, Any]:
            import keras
            import numpy as np

            with strategy.scope():
                model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(units)])
                model.compile(loss="mse", optimizer="sgd")
            history = model.fit(np.ones((size, 3)), np.ones((size, units)), batch_size=4, verbose=0)
            return {"models": [model], "history": history, "sum": float(model(np.ones((1, 3))).numpy().sum())}

        two_units = functools.partial(train, units=2)
        values = launch(two_units, 8, workers=2, quiet=True, run_dir=tmp_path / "run")
        import numpy as np

        chief, other = values["worker 0"], values["worker 1"]
        assert other["models"] == [None]
        assert chief["sum"] == other["sum"]
        assert float(np.asarray(chief["models"][0](np.ones((1, 3)))).sum()) == pytest.approx(chief["sum"])
        assert list(chief["history"]) == ["loss"] and len(chief["history"]["loss"]) == 1
        # The run has no model.keras, but this one.
        assert not values.run.model_path.exists()
        found = values.run.model()
        assert float(np.asarray(found(np.ones((1, 3)))).sum()) == pytest.approx(chief["sum"])
