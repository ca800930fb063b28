r"""Export a trained model for serving: a SavedModel that takes text.

    python -m albert_tf.export --run_dir=runs/rte --export_dir=exported/rte

    python -m albert_tf.export --task=encoder --init_checkpoint=albert_base \
        --albert_config_file=albert_base/albert_config.json \
        --spm_model_file=albert_base/30k-clean.model \
        --export_dir=exported/albert_base

The first takes everything from the folder of a run. The second takes any
checkpoint that can be read (docs/checkpoints.md). The result runs with
tensorflow and tensorflow-text alone, or, by --format, with LiteRT or ONNX
Runtime. export.json in it has its size and the largest difference of its
outputs from the model in float32.
"""

from albert_tf.common import imports, options
from albert_tf.serving.export_options import ExportOptions

export = imports.later("albert_tf.serving.export")


def run(settings: ExportOptions) -> None:
    export.run(settings)


if __name__ == "__main__":
    options.run_script(run, ExportOptions)
