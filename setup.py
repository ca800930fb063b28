"""The packages of the wheel; everything else is in pyproject.toml.

`configs/` is in the wheel as `albert_tf/configs`, where
`albert_tf/common/configs.py` finds it, but for the weights of more languages,
which would make it twice as large.
"""

import setuptools

configs = [
    f"albert_tf.configs.{name}"
    for name in setuptools.find_namespace_packages(
        "configs", exclude=["checkpoints.albert_small_multi"]
    )
]
setuptools.setup(
    packages=[
        *setuptools.find_packages(include=["albert_tf*", "data_prep*"]),
        "albert_tf.configs",
        *configs,
    ],
    package_dir={"albert_tf.configs": "configs"},
    package_data={
        "albert_tf": ["serving/server/page.html", "py.typed"],
        "data_prep": ["py.typed"],
        **dict.fromkeys(configs, ["*"]),
    },
)
