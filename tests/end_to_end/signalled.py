"""A training script that receives a signal at a given step.

Usage: python -m tests.end_to_end.signalled SIGNAL SPLIT STEP MODULE [FLAG...]
"""

import os
import runpy
import signal
import sys

from albert_tf.training import run_log


def main(name, split, step, module, *flags):
    """Run a module; send the signal when its log has a line of the step."""
    write = run_log.RunLog.write

    def write_and_send(log, *line, **rest):
        write(log, *line, **rest)
        if line[:2] == (split, int(step)):
            os.kill(os.getpid(), signal.Signals[name])

    run_log.RunLog.write = write_and_send
    sys.argv = [module, *flags]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
