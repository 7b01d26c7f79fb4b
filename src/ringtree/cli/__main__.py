"""`python -m ringtree.cli`: the command without its script."""

import sys

from ringtree.cli import main

sys.exit(main())
