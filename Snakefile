"""quantdrift: models x schemes x blocks x projections, from checkpoints to a page."""


include: "workflow/rules/common.smk"
include: "workflow/rules/models.smk"
include: "workflow/rules/topology.smk"
include: "workflow/rules/report.smk"


rule all:
    """The page of the study and the checks of its results: the default."""
    default_target: True
    input:
        report=rules.report.output[0],
        checks=rules.checks.output[0],
