"""From strings to ids and back: file formats, sources, tag schemes, vocabularies and the tokeniser."""
