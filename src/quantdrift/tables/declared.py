"""Every table that jobs write shards of, by its kind."""

from . import behaviour, text, topology

TABLES = topology.TABLES | behaviour.TABLES | text.TABLES
