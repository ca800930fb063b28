r"""Pretrain ALBERT on TFRecords: masked or replaced words, sentence order.

    python -m albert_tf.run_pretraining \
        --flagfile=configs/pretraining/tiny.flags --input_file=train.tfrecord \
        --eval_input_file=dev.tfrecord --output_dir=runs/tiny

Started again with the same options, it goes on from the last checkpoint of
--output_dir.
"""

from albert_tf.common import imports, options
from albert_tf.training.pretraining_options import PretrainingOptions

pretrain = imports.later("albert_tf.training.pretrain")


def run(settings: PretrainingOptions) -> None:
    pretrain.run(settings)


if __name__ == "__main__":
    options.run_script(run, PretrainingOptions)
