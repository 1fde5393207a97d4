"""What is made of a trained model: evaluations, predictions, the model's own file and picture."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tfbench import backends
from tfbench.measure.prepared import Prepared
from tfbench.measure.training import evaluate
from tfbench.models.structure.foreign_model import can_evaluate, comes_compiled
from tfbench.recipe.sections import OutputConfig
from tfbench.runs.record import Evaluation, Predictions
from tfbench.store.journal import files_folder
from tfbench.store.whole_files import replacing

MODEL_FILE = "model.keras"
PICTURE_FILE = "model.png"
Array = npt.NDArray[Any]
_NO_CLASSES = (
    "predictions and views are left out: the network's outputs are not one number per class."
)


def evaluate_trained(prepared: Prepared) -> None:
    """Evaluates a trained model further, as the data and the recipe ask for it.

    A test split is evaluated, and several views of the validation samples if the data has them. The
    journal receives "stage", "evaluation" and "predictions" records.
    """
    splits = prepared.splits
    spec = splits.spec
    output = prepared.request.recipe.output
    if splits.test is not None and can_evaluate(prepared.model):
        prepared.begin_stage("evaluating the test split")
        _record(prepared, "test", splits.test.num_samples, lambda: evaluate(prepared, "test"))
    wants_predictions = output.num_predictions or output.per_class_accuracy
    if not wants_predictions and spec.views <= 1:
        return
    if spec.num_classes is None or not _gives_classes(prepared.model, spec.num_classes):
        prepared.note(_NO_CLASSES)
        return
    if spec.views > 1:
        prepared.begin_stage(f"evaluating {spec.views} views")
        num_samples = splits.validation.num_samples
        _record(prepared, "multiview", num_samples, lambda: _evaluate_views(prepared))
    if wants_predictions:
        prepared.begin_stage("predicting")
        predicted = np.argmax(_predict(prepared), axis=-1)
        labels = splits.validation.labels().reshape(-1)
        predictions = _summarize_predictions(labels, predicted, output, spec.num_classes)
        prepared.record("predictions", predictions=predictions)


def _summarize_predictions(
    labels: Array, predicted: Array, output: OutputConfig, num_classes: int
) -> Predictions:
    """Reduces true classes and predicted ones, (samples,) each, to what the recipe asks for."""

    def count_classes(classes: Array) -> tuple[int, ...]:
        if not output.per_class_accuracy:
            return ()
        return tuple(np.bincount(classes, minlength=num_classes).tolist())

    return Predictions(
        first_labels=tuple(labels[: output.num_predictions].tolist()),
        first_predictions=tuple(predicted[: output.num_predictions].tolist()),
        class_samples=count_classes(labels),
        class_correct=count_classes(labels[labels == predicted]),
    )


def write_model_files(prepared: Prepared) -> None:
    """Saves the model and draws its graph, as far as the recipe asks for it.

    What cannot be done becomes a note.
    """
    output = prepared.request.recipe.output
    files = {MODEL_FILE: (output.saves_model, _save), PICTURE_FILE: (output.draws_model, _draw)}
    for name, (is_wanted, write) in files.items():
        if not is_wanted:
            continue
        prepared.begin_stage(f"writing {name}")
        path = files_folder(prepared.journal.path) / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path) as part:
                write(prepared.model, part)
        # A full disk, a user's layer that cannot be serialised, no pydot: each raises its own kind.
        except Exception as error:
            prepared.note(f"{path} was not written: {error}.")


def _gives_classes(model: Any, num_classes: int) -> bool:
    """Says whether a network has one output with a number for each class."""
    outputs: Any = getattr(model, "outputs", None) or ()
    if len(outputs) != 1:
        return False
    shape = outputs[0].shape
    return len(shape) == 2 and bool(shape[1] >= num_classes)


def _record(
    prepared: Prepared, name: Any, num_samples: int, measure: Callable[[], Mapping[str, float]]
) -> None:
    start = time.perf_counter()
    values = measure()
    seconds = time.perf_counter() - start
    finite = {key: value for key, value in values.items() if np.isfinite(value)}
    record = Evaluation(
        name=name,
        num_samples=num_samples,
        seconds=seconds,
        loss=finite.get("loss"),
        accuracy=finite.get("accuracy"),
    )
    prepared.record("evaluation", evaluation=record)


def _evaluate_views(prepared: Prepared) -> dict[str, float]:
    """Returns loss and accuracy of the mean probabilities over the views.

    The loss is -log of the label's mean probability, averaged.
    """
    from tfbench.measure.objective import ProbabilityCrossEntropy, gives_probabilities

    splits = prepared.splits
    model = prepared.model
    if comes_compiled(model):
        is_probable = gives_probabilities(model)
    else:
        has_loss = isinstance(model.loss, ProbabilityCrossEntropy)
        is_probable = has_loss or getattr(model, "is_probable", False)
    total: Any = 0.0
    for view in range(splits.spec.views):
        outputs = _predict(prepared, view)
        if not is_probable:
            outputs = np.exp(outputs - outputs.max(axis=-1, keepdims=True))
        total = total + outputs / outputs.sum(axis=-1, keepdims=True)
    mean = total / splits.spec.views
    labels = splits.validation.labels()
    label_probabilities = mean[np.arange(len(labels)), labels]
    likelihood = np.maximum(label_probabilities, np.finfo(np.float32).tiny)
    accuracy = np.mean(np.argmax(mean, axis=-1) == labels)
    return {"loss": float(np.mean(-np.log(likelihood))), "accuracy": float(accuracy)}


def _predict(prepared: Prepared, view: int | None = None) -> Array:
    """Returns the outputs for all validation samples.

    Each of several workers computes all of them by itself.
    """
    batches = backends.current().build_validation_dataset(
        prepared.splits, batch_size=prepared.evaluation_batch_size, view=view
    )
    return np.asarray(prepared.model.predict(batches, verbose=0))


def _save(model: Any, path: Path) -> None:
    """Writes the model as a `.keras` file."""
    import keras

    if not comes_compiled(model):
        # As a plain model: one with heads is of a class that only tfbench has, and a file need not
        # know it.
        (inputs,) = model.inputs
        (outputs,) = model.outputs
        model = keras.Model(inputs, outputs, name=model.name)
    model.save(path)


def _draw(model: Any, path: Path) -> None:
    """Draws the model's graph; Keras says what is missing for it."""
    import keras

    keras.utils.plot_model(
        model, to_file=str(path), show_shapes=True, show_layer_names=True, rankdir="TB"
    )
