"""Learning-rate schedule, AdamW and LAMB as the original release computes them.

Unless `bias_correction` is set, no optimizer corrects the bias of its moments,
unlike those of Keras, Model Garden and Hugging Face. Source: original release,
optimization.py and lamb_optimizer.py; LAMB is You et al., arXiv 1904.00962.
Muon, which the original does not have: see `muon`.
"""

import dataclasses
import functools
import math
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf
import tf_keras as keras

from albert_tf.model import model_options
from albert_tf.model.execution import xla
from albert_tf.model.optimizers import muon

BETA_1 = 0.9
BETA_2 = 0.999
EPSILON = 1e-6
WEIGHT_DECAY = 0.01
# All gradients together are scaled down to this Euclidean norm.
CLIP_NORM = 1.0
# Variables with such names have no weight decay and no trust ratio.
EXCLUDED = re.compile("LayerNorm|layer_norm|bias")
# What Muon updates, where it is a matrix: the kernels of linear layers.
KERNEL = re.compile(r"(^|/)kernel\b")  # Also of replicas: kernel/replica_1:0.
# Of the encoder, without the pooler, which belongs to the head that reads it.
ENCODER = re.compile("bert/(?!pooler/)")


@keras.saving.register_keras_serializable(package="albert_tf")
class WarmupPolynomialDecay(keras.optimizers.schedules.LearningRateSchedule):
    """Linear warm-up from 0, then polynomial decay to 0 at the last step.

    The decay counts from step 0, not from the end of the warm-up, so there is a
    small step between the two. The learning rate of the first update is 0.

    DIFFERS: before `start_warmup_step` the original's learning rate is
    negative; here it is that of the decay, unless `original_start_warmup` is
    set.
    """

    def __init__(
        self,
        options: model_options.OptimizerOptions,
        num_train_steps: int,
        num_warmup_steps: int,
        step_scale: tf.Variable | float = 1.0,
    ):
        """Make it; where time is limited, `step_scale` is a variable."""
        super().__init__()
        self._options = options
        self._num_train_steps = num_train_steps
        self._num_warmup_steps = num_warmup_steps
        self.step_scale = step_scale

    def progress_at(self, step: tf.Tensor) -> tf.Tensor:
        """Return the share of the schedule, float32 [], before an update."""
        step = tf.cast(step, tf.float32) * self.step_scale
        return tf.minimum(step / self._num_train_steps, 1.0)

    def __call__(self, step: tf.Tensor) -> tf.Tensor:
        """Return the learning rate of the update after `step` others."""
        options = self._options
        progress = self.progress_at(step)
        step = tf.cast(step, tf.float32) * self.step_scale
        decay = options.learning_rate * (1.0 - progress) ** options.poly_power
        if not self._num_warmup_steps:
            return decay
        warmup_step = step - options.start_warmup_step
        warmup = options.learning_rate * warmup_step / self._num_warmup_steps
        is_warmup = warmup_step < self._num_warmup_steps
        if not options.original_start_warmup:
            is_warmup &= warmup_step >= 0
        return tf.where(is_warmup, warmup, decay)

    def get_config(self) -> dict[str, Any]:
        return {
            "options": dataclasses.asdict(self._options),
            "num_train_steps": self._num_train_steps,
            "num_warmup_steps": self._num_warmup_steps,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "WarmupPolynomialDecay":
        options = model_options.OptimizerOptions(**config["options"])
        return cls(**{**config, "options": options})


class UpdateArguments(NamedTuple):
    """What the updates of all variables have in common, see `AdamW.update`."""

    factor: tf.Tensor
    finite: tf.Tensor
    learning_rate: tf.Tensor
    m_correction: tf.Tensor
    v_correction: tf.Tensor


class AdamW(keras.optimizers.Optimizer):
    """Adam with decoupled weight decay, by default without bias correction.

    m ← 0.9 m + 0.1 g;  v ← 0.999 v + 0.001 g²;  u = m / (√v + 1e-6)
    u ← u + 0.01 w  unless excluded;  w ← w - learning_rate · u

    With bias correction, u of update t (1, 2, ...) is computed from
    m / (1 - 0.9^t) and v / (1 - 0.999^t) (Kingma and Ba, arXiv 1412.6980,
    section 3). Without it, steps of the first updates are up to 6.6 times
    as large. Skipped updates count. `beta_2` replaces 0.999.

    `encoder_factor` multiplies the learning rate of the variables of `ENCODER`.
    """

    _layer_adaptation = False  # Whether a step is scaled by ‖w‖ / ‖u‖.

    def __init__(
        self,
        learning_rate: Any,
        *,
        bias_correction: bool = False,
        encoder_factor: float = 1.0,
        beta_2: float = BETA_2,
        name: str | None = None,
    ):
        name = name or type(self).__name__.lower()
        super().__init__(name=name, jit_compile=False)
        self._learning_rate = self._build_learning_rate(learning_rate)
        self._bias_correction = bias_correction
        self._encoder_factor = encoder_factor
        self._beta_2 = beta_2

    def build(self, var_list: list[tf.Variable]) -> None:
        """Create the two moments of every variable, float32 zeros."""
        super().build(var_list)
        if getattr(self, "_built", False):
            return
        self._built = True
        self.adam_m = [
            self.add_variable_from_reference(v, "adam_m") for v in var_list
        ]
        self.adam_v = [
            self.add_variable_from_reference(v, "adam_v") for v in var_list
        ]

    def learning_rate_at(self, step: tf.Tensor) -> tf.Tensor:
        """Return the learning rate, float32 [], of the update after `step`."""
        if callable(self._learning_rate):
            return self._learning_rate(step)
        return tf.convert_to_tensor(self._learning_rate)

    @property
    def progress(self) -> tf.Tensor:
        """The share of the updates that are made, float32 []."""
        schedule: WarmupPolynomialDecay = self._learning_rate
        return schedule.progress_at(self.iterations)

    @property
    def step_scale(self) -> tf.Variable | None:
        """The variable of a schedule that was made `by_the_clock`."""
        step_scale = getattr(self._learning_rate, "step_scale", None)
        return step_scale if isinstance(step_scale, tf.Variable) else None

    def update(
        self,
        gradients: list[tf.Tensor],
        variables: list[tf.Variable],
        factor: tf.Tensor,
        finite: tf.Tensor,
    ) -> None:
        """Make one update in every replica, or none.

        Args:
            gradients: Summed over replicas.
            variables: Some or all of those the optimizer is built for.
            factor: float32 [], multiplies the gradients.
            finite: bool []. Where it is false, neither variables nor moments
                change; the step still counts.
        """

        def update_replicas(
            strategy: tf.distribute.Strategy,
            gradients: list[tf.Tensor],
            factor: tf.Tensor,
            finite: tf.Tensor,
        ) -> None:
            arguments = UpdateArguments(
                factor,
                finite,
                self.learning_rate_at(self.iterations),
                *self._bias_corrections(),
            )
            for gradient, variable in zip(gradients, variables, strict=True):
                m, v = self._moments(variable)
                variable_arguments = self._with_group_rate(arguments, variable)
                strategy.extended.update(
                    variable, self._update, (gradient, m, v, variable_arguments)
                )
            self.iterations.assign_add(1)

        replica = tf.distribute.get_replica_context()
        replica.merge_call(update_replicas, (gradients, factor, finite))

    def update_step(self, gradient: tf.Tensor, variable: tf.Variable) -> None:
        """Update one variable and its moments; for Keras."""
        arguments = UpdateArguments(
            tf.constant(1.0),
            tf.constant(True),
            tf.cast(self.learning_rate, variable.dtype),
            *self._bias_corrections(),
        )
        arguments = self._with_group_rate(arguments, variable)
        gradient = tf.convert_to_tensor(gradient)
        self._update(variable, gradient, *self._moments(variable), arguments)

    def _with_group_rate(
        self, arguments: UpdateArguments, variable: tf.Variable
    ) -> UpdateArguments:
        if self._encoder_factor == 1.0 or not ENCODER.match(variable.name):
            return arguments
        rate = arguments.learning_rate * self._encoder_factor
        return arguments._replace(learning_rate=rate)

    def _bias_corrections(self) -> tuple[tf.Tensor, tf.Tensor]:
        """Return 1 / (1 - β^t) for both moments; 1 without bias correction."""
        if not self._bias_correction:
            return tf.constant(1.0), tf.constant(1.0)
        update = tf.cast(self.iterations + 1, tf.float32)
        # 1 - beta ** update, without cancellation.
        m_sum, v_sum = (
            -tf.math.expm1(update * math.log(beta))
            for beta in (BETA_1, self._beta_2)
        )
        return 1.0 / m_sum, 1.0 / v_sum

    def _moments(
        self, variable: tf.Variable
    ) -> tuple[tf.Variable, tf.Variable]:
        index = self._index_dict[self._var_key(variable)]
        return self.adam_m[index], self.adam_v[index]

    def _update(
        self,
        variable: tf.Variable,
        gradient: tf.Tensor,
        m: tf.Variable,
        v: tf.Variable,
        arguments: UpdateArguments,
    ) -> None:
        included = not EXCLUDED.search(variable.name)
        adapts = included and self._layer_adaptation
        rule = _compile_rule(included, adapts, self._beta_2)
        vectors = [tf.reshape(x, [-1]) for x in (variable, gradient, m, v)]
        updated = rule(*vectors, arguments)
        for old, new in zip((variable, m, v), updated, strict=True):
            old.assign(tf.reshape(new, old.shape))

    def get_config(self) -> dict[str, Any]:
        return {
            "learning_rate": self._serialize_hyperparameter(
                self._learning_rate
            ),
            "bias_correction": self._bias_correction,
            "encoder_factor": self._encoder_factor,
            "beta_2": self._beta_2,
            "name": self.name,
        }


class Lamb(AdamW):
    """AdamW whose step is scaled by ‖w‖ / ‖u‖ of each variable."""

    _layer_adaptation = True


class Muon(AdamW):
    """Muon for the kernels of linear layers, AdamW for all other variables.

    For a kernel w, with u and m from `muon.direction`:

    u ← u + 0.01 w;  w ← w - learning_rate · u

    Steps have about the size of AdamW's, so its learning rates fit. A kernel
    that layers share is orthogonalized once an update. `adam_m` of a kernel is
    its momentum; its `adam_v` stays 0.
    """

    def __init__(
        self, learning_rate: Any, *, precision: str = "float32", **options: Any
    ):
        """See `AdamW`; `precision`: what `muon.orthogonalize` computes in."""
        super().__init__(learning_rate, **options)
        self._precision = precision

    def _update(
        self,
        variable: tf.Variable,
        gradient: tf.Tensor,
        m: tf.Variable,
        v: tf.Variable,
        arguments: UpdateArguments,
    ) -> None:
        if variable.shape.rank != 2 or not KERNEL.search(variable.name):
            super()._update(variable, gradient, m, v, arguments)
            return
        update, new_m = muon.direction(
            gradient * arguments.factor, m, tf.as_dtype(self._precision)
        )
        update += WEIGHT_DECAY * variable
        new_w = variable - arguments.learning_rate * update
        variable.assign(tf.where(arguments.finite, new_w, variable))
        m.assign(tf.where(arguments.finite, new_m, m))

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "precision": self._precision}


@functools.cache
def _compile_rule(
    weight_decay: bool, layer_adaptation: bool, beta_2: float
) -> Callable[..., tuple[tf.Tensor, ...]]:
    """Return a function that computes the new variable and moments.

    XLA compiles it to a few passes over memory instead of twenty. It takes flat
    vectors, so that one function serves variables of all shapes.
    """
    vector = tf.TensorSpec([None], tf.float32)
    number = tf.TensorSpec([], tf.float32)
    arguments = UpdateArguments(
        number, tf.TensorSpec([], tf.bool), number, number, number
    )

    def rule(
        w: tf.Tensor,
        gradient: tf.Tensor,
        m: tf.Tensor,
        v: tf.Tensor,
        arguments: UpdateArguments,
    ) -> tuple[tf.Tensor, ...]:
        g = gradient * arguments.factor
        new_m = BETA_1 * m + (1.0 - BETA_1) * g
        new_v = beta_2 * v + (1.0 - beta_2) * tf.square(g)
        root = tf.sqrt(new_v * arguments.v_correction)
        update = new_m * arguments.m_correction / (root + EPSILON)
        if weight_decay:
            update += WEIGHT_DECAY * w
        learning_rate = arguments.learning_rate
        if layer_adaptation:
            weight_norm, update_norm = tf.norm(w), tf.norm(update)
            both = (weight_norm > 0) & (update_norm > 0)
            ratio = tf.math.divide_no_nan(weight_norm, update_norm)
            learning_rate *= tf.where(both, ratio, 1.0)
        new_w = w - learning_rate * update
        finite = arguments.finite
        return (
            tf.where(finite, new_w, w),
            tf.where(finite, new_m, m),
            tf.where(finite, new_v, v),
        )

    return xla.xla_compiled(rule, [*[vector] * 4, arguments])


def counter(name: str, value: float) -> tf.Variable:
    """Return a variable that is not trained, the same on all replicas."""
    return tf.Variable(
        value,
        trainable=False,
        name=name,
        aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
    )


def make_optimizer(
    options: model_options.OptimizerOptions,
    num_train_steps: int,
    num_warmup_steps: int,
    *,
    by_the_clock: bool = False,
    encoder_factor: float = 1.0,
    precision: str = "float32",
) -> AdamW:
    """Make the optimizer with its schedule; call it in the strategy's scope."""
    # Named as in the checkpoints of earlier versions.
    step_scale = counter("pace", 1.0) if by_the_clock else 1.0
    schedule = WarmupPolynomialDecay(
        options, num_train_steps, num_warmup_steps, step_scale
    )
    make: dict[str, Callable[..., AdamW]] = {
        "lamb": Lamb,
        "adamw": AdamW,
        "muon": functools.partial(Muon, precision=precision),
    }
    return make[options.optimizer](
        schedule,
        bias_correction=options.bias_correction,
        encoder_factor=encoder_factor,
        beta_2=options.beta_2,
    )
