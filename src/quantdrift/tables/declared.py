"""Every table that jobs write shards of, by its kind."""

from . import behaviour, topology

TABLES = topology.TABLES | behaviour.TABLES
