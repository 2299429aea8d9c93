"""The command line: thin. A verb is a struct, its fields are the options, ``run`` does it; nothing here needs torch."""
