"""Predict in a process of its own, and print the most memory it took.

    python -m tests.albert_tf.training.one_prediction '{"run_dir": "run", ...}'

Takes the options of `albert_tf.predict`; prints what `one_step` prints.
"""

import json
import sys

from albert_tf import predict


def main(values):
    """Predict, then look at the memory."""
    predict.run(predict.PredictOptions(**values))
    from tests.albert_tf.training import (
        one_step,
    )  # It loads what predict does not.

    print(json.dumps({"peak": one_step.peak()}))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
