"""The precision that `--precision=auto` stands for."""

import pytest

from albert_tf import run_classifier
from albert_tf.common import options
from albert_tf.training import processors, run_folder


@pytest.mark.parametrize(
    ("line", "devices", "expected", "reason"),
    [
        ("flags : avx2 avx512_bf16 fma", [], "bfloat16", "avx512_bf16."),
        ("flags\t: amx_bf16 avx512_bf16", [], "bfloat16", "amx_bf16."),
        ("Features : fp asimd bf16", [], "bfloat16", "bf16."),
        ("flags : sse4_2 avx2 fma", [], "float32", "none of amx_bf16,"),
        ("model name : bf16", [], "float32", "none of amx_bf16,"),
        (None, [], "float32", "none of amx_bf16,"),
        (None, ["/dev/accel0"], "bfloat16", "/dev/accel0."),
    ],
)
def test_the_precision_is_that_of_the_machine(
    tmp_path, caplog, line, devices, expected, reason
):
    caplog.set_level("INFO", "absl")
    path = tmp_path / "cpuinfo"
    if line:
        path.write_text(f"processor : 0\n{line}\n")
    assert processors.choose_precision(str(path), devices) == expected
    assert f"auto: {expected}, since this machine has {reason}" in caplog.text


def test_a_run_goes_on_in_its_precision(tmp_path, monkeypatch, world):
    """Also on a machine for which another one would be chosen."""
    values = {
        "output_dir": str(tmp_path / "run"),
        "albert_config_file": world.config,
        "spm_model_file": world.vocabulary,
        "max_seq_length": 48,
        "task_name": "rte",
        "data_dir": world.glue,
        "do_train": True,
    }

    def settle(precision):
        given = options.from_dict(
            run_classifier.ClassifierOptions, {**values, "precision": precision}
        )
        settled = processors.settle_precision(given, values["output_dir"])
        assert options.to_dict(settled) == {
            **options.to_dict(given),
            "precision": settled.finetuning.trainer.precision,
        }
        return settled

    def choose(*_):
        return chosen

    monkeypatch.setattr(processors, "choose_precision", choose)
    chosen = "bfloat16"
    settled = settle("auto")
    assert settled.finetuning.trainer.precision == chosen
    shared = settled.finetuning
    run_folder.RunStart(
        shared.output_dir,
        "run_classifier",
        settled,
        shared.read_config(),
        shared.vocabulary,
    ).write_options()
    chosen = "float32"
    assert settle("auto").finetuning.trainer.precision == "bfloat16"
    assert settle("float16").finetuning.trainer.precision == "float16"
