"""The tests of the documentation read its generated pages, too."""

import subprocess
import sys
from pathlib import Path

# Before any module is collected: some make their tests from the pages.
GENERATE = Path(__file__).resolve().parents[2] / "scripts" / "generate.py"
subprocess.run([sys.executable, str(GENERATE)], check=True)
