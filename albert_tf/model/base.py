"""What the encoder and the heads have in common as Keras models."""

import dataclasses
import inspect
from typing import Any

import tf_keras as keras

from albert_tf.common import errors
from albert_tf.model import model_inputs
from albert_tf.model.config import AlbertConfig


class BuiltModel(keras.Model):
    """A Keras model whose variables exist as soon as it is constructed.

    They are float32, whatever Keras' global policy is.
    """

    input_keys: tuple[str, ...] = model_inputs.ENCODER

    def __init__(self, name: str):
        super().__init__(name=name, dtype="float32")

    def build(self, input_shape: Any) -> None:
        """Do nothing: the variables exist."""
        self.built = True

    def __call__(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Call the model with inputs by the names of this project."""
        inputs = model_inputs.standardize(inputs, self.input_keys)
        return super().__call__(inputs, *args, **kwargs)

    def get_config(self) -> dict[str, Any]:
        """Return what `from_config` needs, for Keras.

        Each argument of a constructor is an attribute of the same name.
        """
        config: dict[str, Any] = {"trainable": self.trainable}
        _, *names = inspect.signature(type(self).__init__).parameters
        for name in names:
            value = getattr(self, name)
            if isinstance(value, AlbertConfig):
                value = dataclasses.asdict(value)
            config[name] = keras.saving.serialize_keras_object(value)
        return config

    @classmethod
    def from_config(
        cls, config: dict[str, Any], custom_objects: Any = None
    ) -> "BuiltModel":
        """Construct a model, with new weights, from `get_config`."""
        arguments = keras.saving.deserialize_keras_object(
            config, custom_objects
        )
        for name in ("config", "generator_config"):
            if name in arguments:
                arguments[name] = AlbertConfig.from_dict(arguments[name])
        trainable = arguments.pop("trainable")
        model = cls(**arguments)
        model.trainable = trainable
        return model


def require_built(model: keras.Model) -> None:
    """Refuse a model with a layer that creates its variables when called."""
    empty_builds = keras.layers.Layer.build, BuiltModel.build
    for layer in model.submodules:
        if not isinstance(layer, keras.layers.Layer) or layer.built:
            continue
        if type(layer).build not in empty_builds:
            raise errors.UserError(
                f"The layer {layer.name!r} of {type(model).__name__} creates "
                "its variables when it is first called, too late to restore "
                "or train them. Create them when the model is constructed: use "
                "albert_tf.model.network.layers.Dense, or call the layer's "
                "build with the shape of its input."
            )
