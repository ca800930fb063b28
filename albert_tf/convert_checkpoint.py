"""Convert a checkpoint between the original, this project and Hugging Face.

    python -m albert_tf.convert_checkpoint --from=albert_base/model.ckpt-best \
        --to=albert_base_hf --format=huggingface

Weights keep every bit, except with --format=bfloat16 and int8. The head of a
run that predicts numbers is changed to give them in their units. Moments and
global step travel between TF1 and TF2 checkpoints, where the source has them;
the other formats have no place for them. A vocabulary that is known travels,
with the file that says how its text is normalized. A folder for Hugging Face
also gets the tokenizer and a model card; one for KerasHub, the tokenizer.
"""

from albert_tf.common import imports, options
from albert_tf.serving.convert_options import ConvertOptions

convert = imports.later("albert_tf.serving.convert")


def run(settings: ConvertOptions) -> None:
    convert.run(settings)


if __name__ == "__main__":
    options.run_script(run, ConvertOptions)
