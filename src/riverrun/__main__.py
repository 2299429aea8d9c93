"""``python -m riverrun`` is the ``riverrun`` command."""

from riverrun.cli.main import main

if __name__ == "__main__":
    main()
