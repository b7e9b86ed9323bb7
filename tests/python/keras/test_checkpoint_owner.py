"""A checkpoint says whose it is; another job's is refused, and the same job's with other settings is not."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.launching import names, python, tfmuster, write
from tfmuster.errors import CheckpointError
from tfmuster.tracking.record.layout import write_json
from tfmuster.training import checkpoint_files
from tfmuster.training.checkpoint_contents import changed_settings, learning_rate, settings_of

PROGRAM = (
    "import sys, tfmuster",
    "strategy = tfmuster.strategy('multi_worker_mirrored' if tfmuster.current_task() else 'default')",
    "import keras, numpy as np",
    "with strategy.scope():",
    "    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])",
    "    model.compile(keras.optimizers.SGD(float(sys.argv[1])), 'mse')",
    "model.fit(np.ones((8, 3)), np.ones(8), batch_size=4, epochs=int(sys.argv[2]), verbose=0,",
    "          shuffle=False, callbacks=[tfmuster.checkpoint_callback('folder')])",
    "print(f'rate {float(model.optimizer.learning_rate.numpy()):g}')",
)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_jobs_in_one_folder(tmp_path: Path) -> None:
    write(tmp_path, "train.py", *PROGRAM)

    def launched(*options: object, rate: float, epochs: int) -> subprocess.CompletedProcess[str]:
        program = ("--", "train.py", rate, epochs)
        return tfmuster("launch", "-n", 1, *options, *program, cwd=tmp_path, limit=100)

    first = launched("--seed", 1, "--name", "jobA", rate=0.1, epochs=1)
    assert first.returncode == 0, first.stderr
    before = names(tmp_path / "folder")
    other = launched("--seed", 2, "--name", "jobB", rate=0.001, epochs=2)
    assert other.returncode != 0
    assert "The checkpoint belongs to another job." in other.stderr
    assert "found: the job jobA in folder (run 20" in other.stderr
    assert "here the job jobB" in other.stderr
    assert "give this job its name: --name jobA; otherwise choose another folder" in other.stderr
    assert names(tmp_path / "folder") == before
    # Of the same job, started again without a seed.
    again = launched("--name", "jobA", rate=0.001, epochs=2)
    assert again.returncode == 0, again.stderr
    said = again.stdout + again.stderr
    assert "resumes after step 2: epoch 2, step 0" in said
    assert "continues with learning_rate 0.001, which was 0.1; seed " in said
    assert said.count("continues with") == 1
    assert "rate 0.001" in said
    # A program that no launcher has started has no name.
    by_hand = python("train.py", "0.001", "3", cwd=tmp_path, limit=100)
    assert by_hand.returncode == 0, by_hand.stderr
    assert "resumes after step 4" in by_hand.stdout + by_hand.stderr
    assert "continues with" not in by_hand.stdout + by_hand.stderr


class TestRuns:
    """Runs as their workers see them: an environment variable, and a file if the machine is the same."""

    @pytest.fixture(autouse=True)
    def _here(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("TFMUSTER_RUN_DIR", raising=False)
        self.place, self.environ = tmp_path, monkeypatch

    def trains(self, run: str | None, name: str | None, epochs: int) -> Any:
        if run is None:
            self.environ.delenv("TFMUSTER_RUN_DIR")
        else:
            folder = self.place / run
            folder.mkdir(exist_ok=True)
            if name is not None:
                write_json(folder / "run.json", {"name": name})
            self.environ.setenv("TFMUSTER_RUN_DIR", str(folder))
        model, _ = self.model(0.1)
        self.fit(model, epochs)
        return model

    def model(self, rate: float) -> tuple[Any, Any]:
        import keras

        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
        model.compile(keras.optimizers.Adam(rate), "mse")
        return model, model.optimizer.learning_rate

    def fit(self, model: Any, epochs: int, *callbacks: Any) -> None:
        import tfmuster

        checkpoint = tfmuster.checkpoint_callback(self.place / "folder")
        model.fit(np.ones((8, 3)), np.ones(8), epochs=epochs, verbose=0, callbacks=[*callbacks, checkpoint])

    @pytest.mark.parametrize(
        ("run", "name"),
        [
            ("20260102T000000Z-train", "train"),
            # The same run, whose user has renamed it.
            ("20260101T000000Z-train", "other"),
            # The run directory is not on this machine.
            ("run", None),
            (None, None),
        ],
    )
    def test_what_resumes(self, run: str | None, name: str | None) -> None:
        self.trains("20260101T000000Z-train", "train", 1)
        assert self.trains(run, name, 2).optimizer.iterations.numpy() == 2

    def test_what_does_not(self) -> None:
        self.trains("20260101T000000Z-train", "train", 1)
        with pytest.raises(CheckpointError) as caught:
            self.trains("20260102T000000Z-tune", "tune", 2)
        assert caught.value.fields["reason"] == "other-name"
        assert caught.value.found == (
            f"the job train in {self.place / 'folder'} (run 20260101T000000Z-train), here the job tune"
        )

    def test_words_of_a_checkpoint_stay_in_their_line(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Whoever can write to the folder can have anything in it."""
        self.trains("20260101T000000Z-train", "train", 1)
        newest = checkpoint_files.newest(self.place / "folder")
        assert newest is not None
        position, values = checkpoint_files.unpack(newest.content)
        evil = "\x1b[2J\nError: call me"
        forged = {**position, "settings": {"learning_rate": evil}}
        checkpoint_files.write(self.place / "folder", newest.step, forged, values)
        self.trains("20260101T000000Z-train", "train", 2)
        assert "which was \\x1b[2J\\nError: call me\n" in capsys.readouterr().err
        forged = {**position, "of": {**position["of"], "optimizer": evil}}
        checkpoint_files.write(self.place / "folder", 100, forged, values)
        with pytest.raises(CheckpointError, match=r"the optimizer \\x1b\[2J\\nError: call me, here Adam"):
            self.trains("20260101T000000Z-train", "train", 3)

    def test_data_that_end_before_the_checkpoint(self) -> None:
        """The sizes of such data are not known when fit begins."""
        import keras
        import tensorflow as tf

        import tfmuster

        def data(batches: int) -> Any:
            signature = (tf.TensorSpec((None, 3)), tf.TensorSpec((None,)))
            pair = np.ones((4, 3)), np.ones(4)
            return tf.data.Dataset.from_generator(lambda: [pair] * batches, output_signature=signature)

        def stop(batch: int, logs: object = None) -> None:
            if batch == 2:
                raise KeyboardInterrupt

        callback = tfmuster.checkpoint_callback(self.place / "folder", every=1)
        stopping = keras.callbacks.LambdaCallback(on_train_batch_end=stop)
        with pytest.raises(KeyboardInterrupt):
            self.model(0.1)[0].fit(data(5), verbose=0, callbacks=[callback, stopping])
        with pytest.raises(
            CheckpointError, match="was written after 3 steps of an epoch; the data end after 2"
        ):
            self.model(0.1)[0].fit(data(2), verbose=0, callbacks=[callback])
        seen: list[int] = []
        noting = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: seen.append(batch))
        self.model(0.1)[0].fit(data(5), verbose=0, callbacks=[callback, noting])
        assert seen == [3, 4]

    def test_the_learning_rate(self) -> None:
        import keras

        def halve(epoch: int, logs: object = None) -> None:
            rate.assign(rate / 2)

        for epochs, begins_with, ends_with in ((1, 0.1, 0.05), (2, 0.1, 0.025), (3, 0.2, 0.1)):
            model, rate = self.model(begins_with)
            # What callbacks have set is the training's state, and stays; what the program sets, takes effect.
            self.fit(model, epochs, keras.callbacks.LambdaCallback(on_epoch_end=halve))
            assert float(rate.numpy()) == pytest.approx(ends_with)


def test_settings() -> None:
    import keras

    plain = keras.optimizers.SGD(0.1, momentum=0.9)
    schedule = keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.9)
    planned = keras.optimizers.SGD(schedule)
    scaled = keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(0.01))
    assert learning_rate(plain) == pytest.approx(0.1)
    assert learning_rate(planned) is None
    assert learning_rate(scaled) == pytest.approx(0.01)
    assert settings_of(planned)["learning_rate.decay_rate"] == 0.9
    assert settings_of(scaled)["inner_optimizer.learning_rate"] == pytest.approx(0.01)
    assert settings_of(object()) == {}
    other = settings_of(keras.optimizers.SGD(0.2, momentum=0.9, name="another"))
    assert changed_settings(settings_of(plain), other) == {"learning_rate": ("0.1", "0.2")}
    assert changed_settings({}, other) == {}
