"""quantdrift: models x schemes x blocks x projections, from checkpoints to a page."""


include: "workflow/rules/common.smk"
include: "workflow/rules/models.smk"
include: "workflow/rules/topology.smk"
include: "workflow/rules/behaviour.smk"
include: "workflow/rules/text.smk"
include: "workflow/rules/accuracy.smk"
include: "workflow/rules/report.smk"
include: "workflow/rules/prediction.smk"
include: "workflow/rules/page.smk"


rule all:
    """The page of the study and the checks of its results: the default."""
    default_target: True
    input:
        rules.report.output,
        rules.checks.output,
        # All that the study has to show, so that what was lost is made again.
        rules.topoquant_figure_2.output,
        rules.block_drift.output,
        rules.gauge_drift_figure.output if WITH_GAUGES else [],
        rules.weight_error_table.output,
        rules.drift_table.output,
        rules.projection_sensitivity.output,
        rules.beyond_attention.output if WITH_SHORTCUTS else [],
        rules.agreement_table.output if WITH_AGREEMENT else [],
        rules.topoquant_table_1.output if WITH_AGREEMENT else [],
        rules.topoquant_figure_3.output if WITH_AGREEMENT else [],
        rules.agreement_blocks.output if WITH_AGREEMENT else [],
        rules.accuracy_table.output if STUDY.accuracy.datasets else [],
        rules.perplexity_table.output if WITH_TEXT else [],
        rules.divergence.output if WITH_TEXT else [],
        PREDICTION if STUDY.prediction.on_page else [],
        rules.timings.output,
        rules.topoquant_table_3.output,
        expand(f"{PAGES}/tables/{{kind}}.parquet", kind=KINDS),
        [SHARDS_OF[kind] for kind in KINDS],
