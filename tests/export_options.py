"""Options and reports of exports, for tests."""

import json

from albert_tf import export
from albert_tf.common import options as albert_options


def make_options(**values):
    """Options of the script, by their names."""
    return albert_options.from_dict(export.ExportOptions, values)


def with_vocabulary(path):
    return {"spm_model_file": path}


def read_report(run_dir):
    return json.loads((run_dir.parent / "exported" / "export.json").read_text())
