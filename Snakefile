"""quantdrift: models x schemes x blocks x projections, from checkpoints to a page."""


include: "workflow/rules/common.smk"
include: "workflow/rules/models.smk"
include: "workflow/rules/topology.smk"
include: "workflow/rules/report.smk"


rule all:
    default_target: True
    input:
        expand(f"{PAGES}/tables/{{kind}}.parquet", kind=SHARDS_OF),
