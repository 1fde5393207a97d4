"""What is made of a trained model: evaluations, predictions, the model's own file and picture."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tfbench import backends
from tfbench.models.structure.foreign_model import can_evaluate, comes_compiled
from tfbench.recipe.sections import OutputConfig
from tfbench.records.journal import Journal, files_folder
from tfbench.records.run import Evaluation, Predictions
from tfbench.records.whole_files import replacing
from tfbench.schema import to_plain
from tfbench.worker.prepared import Prepared
from tfbench.worker.training import evaluate

MODEL_FILE = "model.keras"
PICTURE_FILE = "model.png"


def evaluate_trained(prepared: Prepared) -> None:
    """Evaluates a trained model further, as the data and the recipe ask for it.

    A test split is evaluated, and several views of the validation samples if the data has them. The
    journal receives "stage", "evaluation" and "predictions" records.
    """
    splits = prepared.splits
    model = prepared.model
    journal = prepared.journal
    output = prepared.request.recipe.output
    if splits.test is not None and can_evaluate(model):
        journal.append("stage", name="evaluating the test split")
        _record(journal, "test", splits.test.num_samples, lambda: evaluate(prepared, "test"))
    wants_predictions = output.num_predictions or output.per_class_accuracy
    if not (wants_predictions or splits.spec.views > 1):
        return
    num_classes = splits.spec.num_classes
    if num_classes is None or not _gives_classes(model, num_classes):
        text = (
            "predictions and views are left out: the network's outputs are not one number per"
            " class."
        )
        journal.append("note", text=text)
        return
    if splits.spec.views > 1:
        journal.append("stage", name=f"evaluating {splits.spec.views} views")
        _record(
            journal, "multiview", splits.validation.num_samples, lambda: _evaluate_views(prepared)
        )
    if wants_predictions:
        journal.append("stage", name="predicting")
        logits = _predict(prepared)
        labels = splits.validation.labels().reshape(-1)
        predictions = _summarize_predictions(
            labels, np.argmax(logits, axis=-1), output, num_classes
        )
        journal.append("predictions", predictions=to_plain(predictions))


def _summarize_predictions(
    labels: npt.NDArray[Any], predicted: npt.NDArray[Any], output: OutputConfig, num_classes: int
) -> Predictions:
    """Reduces true classes and predicted ones, (samples,) each, to what the recipe asks for."""
    counted = (labels, labels[labels == predicted]) if output.per_class_accuracy else ()
    per_class = [tuple(np.bincount(each, minlength=num_classes).tolist()) for each in counted] or [
        (),
        (),
    ]
    return Predictions(
        first_labels=tuple(labels[: output.num_predictions].tolist()),
        first_predictions=tuple(predicted[: output.num_predictions].tolist()),
        class_samples=per_class[0],
        class_correct=per_class[1],
    )


def write_model_files(prepared: Prepared) -> None:
    """Saves the model and draws its graph, as far as the recipe asks for it.

    What cannot be done becomes a note.
    """
    output = prepared.request.recipe.output
    model = prepared.model
    journal = prepared.journal
    files = {MODEL_FILE: (output.saves_model, _save), PICTURE_FILE: (output.draws_model, _draw)}
    for name, (is_wanted, write) in files.items():
        if not is_wanted:
            continue
        journal.append("stage", name=f"writing {name}")
        path = files_folder(journal.path) / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path) as part:
                write(model, part)
        # disk, a user's layer that cannot be serialised, no pydot: of kinds of their own
        except Exception as error:
            journal.append("note", text=f"{path} was not written: {error}.")


def _gives_classes(model: Any, num_classes: int) -> bool:
    """Says whether the largest output of a network is the class that it takes a sample for."""
    shapes = [tensor.shape for tensor in getattr(model, "outputs", None) or ()]
    return [len(shape) == 2 and shape[1] >= num_classes for shape in shapes] == [True]


def _record(
    journal: Journal, name: Any, num_samples: int, measure: Callable[[], Mapping[str, float]]
) -> None:
    start = time.perf_counter()
    found = measure()
    seconds = time.perf_counter() - start
    finite = {
        key: found[key] if np.isfinite(found.get(key, np.nan)) else None
        for key in ("loss", "accuracy")
    }
    record = Evaluation(name=name, num_samples=num_samples, seconds=seconds, **finite)
    journal.append("evaluation", evaluation=to_plain(record))


def _evaluate_views(prepared: Prepared) -> dict[str, float]:
    """Returns loss and accuracy of the mean probabilities over the views.

    The loss is -log of the label's mean probability, averaged.
    """
    from tfbench.worker.objective import ProbabilityCrossEntropy, gives_probabilities

    splits = prepared.splits
    model = prepared.model
    is_probable = isinstance(model.loss, ProbabilityCrossEntropy) or getattr(
        model, "is_probable", False
    )
    if comes_compiled(model):
        is_probable = gives_probabilities(model)
    total: Any = 0.0
    for view in range(splits.spec.views):
        outputs = _predict(prepared, view)
        total = total + (
            outputs / outputs.sum(axis=-1, keepdims=True) if is_probable else _softmax(outputs)
        )
    mean = total / splits.spec.views
    labels = splits.validation.labels()
    of_label = np.maximum(mean[np.arange(len(labels)), labels], np.finfo(np.float32).tiny)
    accuracy = (np.argmax(mean, axis=-1) == labels).mean()
    return {"loss": float(-np.log(of_label).mean()), "accuracy": float(accuracy)}


def _predict(prepared: Prepared, view: int | None = None) -> npt.NDArray[Any]:
    """Returns the outputs for all validation samples.

    Each of several workers computes all of them by itself.
    """
    batches = backends.current().build_validation_dataset(
        prepared.splits, batch_size=prepared.evaluation_batch_size, view=view
    )
    return np.asarray(prepared.model.predict(batches, verbose=0))


def _softmax(logits: npt.NDArray[Any]) -> npt.NDArray[Any]:
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))


def _save(model: Any, path: Path) -> None:
    """Writes the model as a `.keras` file."""
    import keras

    plain = model
    if not comes_compiled(model):
        # As a plain model: one with heads is of a class that only tfbench has, and a file need not
        # know them.
        (inputs,) = model.inputs
        (outputs,) = model.outputs
        plain = keras.Model(inputs, outputs, name=model.name)
    plain.save(path)


def _draw(model: Any, path: Path) -> None:
    """Draws the model's graph; Keras says what is missing for it."""
    import keras

    keras.utils.plot_model(
        model, to_file=str(path), show_shapes=True, show_layer_names=True, rankdir="TB"
    )
