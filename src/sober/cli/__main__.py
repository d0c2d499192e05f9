"""`python -m sober.cli` is `sober`."""

from sober.cli.main import main

main()
