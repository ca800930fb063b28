import numpy as np

from albert_tf.data import manifests
from tests.data_prep import writing


def test_duplicates_are_dropped_and_counted(base, tmp_path):
    text = (tmp_path / "a.txt").read_text()
    (tmp_path / "c.txt").write_text(text + "\nsomething else\nand more\n")
    writing.run(base, drop_duplicates=True)
    manifest = manifests.find(base.output_file)
    assert manifest.corpus["duplicate_documents"] == 12
    (tmp_path / "c.txt").write_text("something else\nand more\n")
    other = writing.run(base, output_file=str(tmp_path / "y"))
    np.testing.assert_array_equal(
        np.sort(writing.restore(writing.read_arrays(base)), axis=0),
        np.sort(writing.restore(writing.read_arrays(other)), axis=0),
    )
