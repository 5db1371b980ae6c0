"""What a training frees, it keeps for its next step, unless the environment says how memory is kept."""

import os
import platform
import subprocess
import sys

PROGRAM = """
import resource
from muster.training.allocation import keep_freed_memory
print(keep_freed_memory())
for round in range(12):
    if round == 2:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    chunks = [b"x" * (3 << 20) for _ in range(8)]
    del chunks
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def run(**variables):
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("MALLOC", "GLIBC", "LD_"))}
    output = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=kept | variables, capture_output=True, check=True
    ).stdout.decode()
    is_kept, num_faults = output.split()
    return is_kept == "True", int(num_faults)


def test_freed_memory_is_not_asked_for_again():
    pages_of_a_round = 8 * (3 << 20) // os.sysconf("SC_PAGE_SIZE")
    is_kept, num_faults = run()
    assert is_kept == (platform.libc_ver()[0] == "glibc")  # no other can be asked
    assert num_faults < pages_of_a_round or not is_kept  # of ten rounds


def test_settings_of_the_environment_count():
    assert run(MALLOC_TRIM_THRESHOLD_="131072")[0] is False
    assert run(GLIBC_TUNABLES="glibc.malloc.trim_threshold=131072")[0] is False
