"""Learning-rate schedule, AdamW and LAMB as the original release computes them.

Neither optimizer corrects the bias of its moments, unlike those of Keras, Model
Garden and Hugging Face. Source: original release, optimization.py and
lamb_optimizer.py; LAMB is You et al., arXiv 1904.00962.
"""

import dataclasses
import functools
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf
import tf_keras as keras

from albert_tf import ranges
from albert_tf.options import checked, option

BETA_1 = 0.9
BETA_2 = 0.999
EPSILON = 1e-6
WEIGHT_DECAY = 0.01
# All gradients together are scaled down to this Euclidean norm.
CLIP_NORM = 1.0
# Searched for in variable names; these neither decay nor get a trust ratio.
EXCLUDED = re.compile("LayerNorm|layer_norm|bias")


@dataclasses.dataclass(frozen=True)
@checked
class OptimizerOptions:
    """How weights are updated."""

    optimizer: str = option("lamb", "Optimizer.", choices=("lamb", "adamw"))
    learning_rate: float = option(
        0.00176,
        "Peak learning rate. The default is for batch 4096; scale it with the "
        "square root of the batch.",
        within=ranges.LEARNING_RATE,
    )
    poly_power: float = option(
        1.0, "Power of the polynomial decay.", within=ranges.Range(0, 100)
    )
    start_warmup_step: int = option(
        0,
        "Step at which the warm-up begins.",
        within=ranges.STEPS_OR_NONE,
        may_change=False,
    )
    original_start_warmup: bool = option(
        False,
        "Whether the rate before --start_warmup_step is the original's, which "
        "continues the line of the warm-up below 0; for comparisons.",
    )


class WarmupPolynomialDecay(keras.optimizers.schedules.LearningRateSchedule):
    """Linear warm-up from 0, then polynomial decay to 0 at the last step.

    The decay counts from step 0, not from the end of the warm-up, so there is a
    small dent where the two meet. The rate of the very first update is 0.

    DIFFERS: before `start_warmup_step` the original's rate is negative; here it
    is that of the decay, unless `original_start_warmup` is set.
    """

    def __init__(
        self,
        options: OptimizerOptions,
        num_train_steps: int,
        num_warmup_steps: int,
        pace: tf.Variable | float = 1.0,
    ):
        """Make the schedule.

        Args:
            options: Peak, power and start of the warm-up.
            num_train_steps: Step at which the rate is 0.
            num_warmup_steps: Steps of the warm-up.
            pace: What steps are multiplied with before anything else; a
                variable, where the length of the run follows from the clock.
        """
        super().__init__()
        self._options = options
        self._num_train_steps = num_train_steps
        self._num_warmup_steps = num_warmup_steps
        self.pace = pace

    def __call__(self, step: tf.Tensor) -> tf.Tensor:
        """Return the rate of the update that follows `step` earlier ones."""
        options = self._options
        step = tf.cast(step, tf.float32) * self.pace
        done = tf.minimum(step / self._num_train_steps, 1.0)
        decay = options.learning_rate * (1.0 - done) ** options.poly_power
        if not self._num_warmup_steps:
            return decay
        since = step - options.start_warmup_step
        warmup = options.learning_rate * since / self._num_warmup_steps
        warming = since < self._num_warmup_steps
        if not options.original_start_warmup:
            warming &= since >= 0
        return tf.where(warming, warmup, decay)

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {
            "options": self._options,
            "num_train_steps": self._num_train_steps,
            "num_warmup_steps": self._num_warmup_steps,
        }


def is_excluded(variable: tf.Variable) -> bool:
    """Tell whether a variable is spared weight decay and layer adaptation."""
    return bool(EXCLUDED.search(variable.name))


class How(NamedTuple):
    """How all variables are updated; see `AdamW.update`."""

    factor: tf.Tensor
    finite: tf.Tensor
    rate: tf.Tensor


class AdamW(keras.optimizers.Optimizer):
    """Adam without bias correction, with decoupled weight decay.

    m ← 0.9 m + 0.1 g;  v ← 0.999 v + 0.001 g²;  u = m / (√v + 1e-6)
    u ← u + 0.01 w  unless excluded;  w ← w - rate · u
    """

    _adapts = False  # Whether a step is scaled by ‖w‖ / ‖u‖.

    def __init__(self, learning_rate: Any, name: str = "adamw"):
        super().__init__(name=name, jit_compile=False)
        self._learning_rate = self._build_learning_rate(learning_rate)

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

    def rate(self, step: tf.Tensor) -> tf.Tensor:
        """Return the rate, float32 [], of the update after `step` others."""
        if callable(self._learning_rate):
            return self._learning_rate(step)
        return tf.convert_to_tensor(self._learning_rate)

    @property
    def pace(self) -> tf.Variable | None:
        """The pace of a schedule that was made `by_the_clock`."""
        pace = getattr(self._learning_rate, "pace", None)
        return pace if isinstance(pace, tf.Variable) else None

    def set_pace(self, pace: float) -> None:
        """Set it."""
        self._learning_rate.pace.assign(pace)

    def update(
        self,
        gradients: list[tf.Tensor],
        variables: list[tf.Variable],
        factor: tf.Tensor,
        finite: tf.Tensor,
    ) -> None:
        """Make one update in every replica, or none.

        Args:
            gradients: Of the `variables`, summed over replicas.
            variables: Some or all of those the optimizer is built for.
            factor: float32 [], what the gradients are multiplied with first.
            finite: bool []. Where it is false, neither variables nor moments
                change; the step is counted all the same.
        """

        def everywhere(
            strategy: tf.distribute.Strategy,
            gradients: list[tf.Tensor],
            factor: tf.Tensor,
            finite: tf.Tensor,
        ) -> None:
            how = How(factor, finite, self.rate(self.iterations))
            for gradient, variable in zip(gradients, variables, strict=True):
                m, v = self._moments(variable)
                strategy.extended.update(
                    variable, self._update, (gradient, m, v, how)
                )
            self.iterations.assign_add(1)

        replica = tf.distribute.get_replica_context()
        replica.merge_call(everywhere, (gradients, factor, finite))

    def update_step(self, gradient: tf.Tensor, variable: tf.Variable) -> None:
        """Update one variable and its moments; for Keras."""
        rate = tf.cast(self.learning_rate, variable.dtype)
        gradient = tf.convert_to_tensor(gradient)
        how = How(tf.constant(1.0), tf.constant(True), rate)
        self._update(variable, gradient, *self._moments(variable), how)

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
        how: How,
    ) -> None:
        """Update one variable and its moments."""
        spared = is_excluded(variable)
        rule = _rule(not spared, self._adapts and not spared)
        vectors = [tf.reshape(x, [-1]) for x in (variable, gradient, m, v)]
        updated = rule(*vectors, how)
        for old, new in zip((variable, m, v), updated, strict=True):
            old.assign(tf.reshape(new, old.shape))

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        rate = self._serialize_hyperparameter(self._learning_rate)
        return {"learning_rate": rate, "name": self.name}


class Lamb(AdamW):
    """AdamW whose step is scaled by ‖w‖ / ‖u‖ of each variable."""

    _adapts = True

    def __init__(self, learning_rate: Any, name: str = "lamb"):
        super().__init__(learning_rate, name)


@functools.cache
def _rule(decays: bool, adapts: bool) -> Callable[..., tuple[tf.Tensor, ...]]:
    """Return how a variable and its moments follow from the old ones.

    Compiled by XLA: a few passes over memory in the place of twenty. It takes
    flat vectors, so that one function serves variables of all shapes.

    Args:
        decays: Whether weights decay.
        adapts: Whether the step is scaled by ‖w‖ / ‖u‖.
    """
    vector = tf.TensorSpec([None], tf.float32)
    number = tf.TensorSpec([], tf.float32)
    how = How(number, tf.TensorSpec([], tf.bool), number)

    @tf.function(
        input_signature=[*[vector] * 4, how], jit_compile=True, autograph=False
    )
    def rule(
        w: tf.Tensor,
        gradient: tf.Tensor,
        m: tf.Tensor,
        v: tf.Tensor,
        how: How,
    ) -> tuple[tf.Tensor, ...]:
        """Return the new w, m and v."""
        g = gradient * how.factor
        new_m = BETA_1 * m + (1.0 - BETA_1) * g
        new_v = BETA_2 * v + (1.0 - BETA_2) * tf.square(g)
        update = new_m / (tf.sqrt(new_v) + EPSILON)
        if decays:
            update += WEIGHT_DECAY * w
        rate = how.rate
        if adapts:
            rate *= _trust_ratio(w, update)
        new_w = w - rate * update
        return (
            tf.where(how.finite, new_w, w),
            tf.where(how.finite, new_m, m),
            tf.where(how.finite, new_v, v),
        )

    return rule


def _trust_ratio(weights: tf.Tensor, update: tf.Tensor) -> tf.Tensor:
    """Return ‖w‖ / ‖u‖, or 1 where one of them is 0."""
    weight_norm, update_norm = tf.norm(weights), tf.norm(update)
    both = (weight_norm > 0) & (update_norm > 0)
    return tf.where(both, tf.math.divide_no_nan(weight_norm, update_norm), 1.0)


def make_optimizer(
    options: OptimizerOptions,
    num_train_steps: int,
    num_warmup_steps: int,
    *,
    by_the_clock: bool = False,
) -> AdamW:
    """Make the optimizer with its schedule; call it in the strategy's scope.

    Args:
        options: See `OptimizerOptions`.
        num_train_steps: Step at which the rate is 0.
        num_warmup_steps: Steps of the warm-up.
        by_the_clock: Whether the trainer adapts the pace of the schedule, so
            that it ends when the time is up.
    """
    schedule = WarmupPolynomialDecay(
        options,
        num_train_steps,
        num_warmup_steps,
        tf.Variable(
            1.0,
            trainable=False,
            name="pace",
            aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
        )
        if by_the_clock
        else 1.0,
    )
    return {"lamb": Lamb, "adamw": AdamW}[options.optimizer](schedule)
