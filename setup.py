"""The packages of the wheel; everything else is in pyproject.toml.

`configs/` is in the wheel as `albert_tf/configs`, where
`albert_tf/common/configs.py` finds it.
"""

import setuptools

setuptools.setup(
    packages=[
        *setuptools.find_packages(include=["albert_tf*", "data_prep*"]),
        "albert_tf.configs",
    ],
    package_dir={"albert_tf.configs": "configs"},
    package_data={
        "albert_tf": ["serving/server/page.html", "py.typed"],
        "albert_tf.configs": ["*/*.json", "*/*.flags", "checkpoints/*/*"],
        "data_prep": ["py.typed"],
    },
)
