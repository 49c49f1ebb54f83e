"""Every table that jobs write shards of, by its kind."""

from . import behaviour, choices, text, topology

TABLES = topology.TABLES | behaviour.TABLES | choices.TABLES | text.TABLES
