"""Recipes: TOML, decoded strictly into typed structs. One file a task; ``task`` tells them apart."""

from riverrun.config.data import Data
from riverrun.config.lm import LmRecipe
from riverrun.config.recipe import Recipe, decode_recipe, encode_recipe, load_recipe, read_recipe, shipped_recipes
from riverrun.config.schema import json_schema
from riverrun.config.struct import Config
from riverrun.config.tagger import (
    Affixes,
    CharCNN,
    CharGRU,
    CharLSTM,
    Chars,
    Encoder,
    Head,
    TaggerModel,
    TaggerRecipe,
    Words,
)
from riverrun.config.train import Train

__all__ = [
    "Affixes",
    "CharCNN",
    "CharGRU",
    "CharLSTM",
    "Chars",
    "Config",
    "Data",
    "Encoder",
    "Head",
    "LmRecipe",
    "Recipe",
    "TaggerModel",
    "TaggerRecipe",
    "Train",
    "Words",
    "decode_recipe",
    "encode_recipe",
    "json_schema",
    "load_recipe",
    "read_recipe",
    "shipped_recipes",
]
