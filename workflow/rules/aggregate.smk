"""results/ -> tables of repetitions, summary, fits and gaps."""


rule aggregate:
    input:
        receipts=lambda wildcards: PLAN.all_receipts(),
        cached=lambda wildcards: PLAN.cached(),
        code=sources("aggregate.py", "columns.py", "results.py", "stats.py"),
    output:
        tables=multiext(f"{BUILD}/tables/", tidy="tidy.csv", summary="summary.csv", fits="fits.csv", gaps="gaps.csv"),
    params:
        compared=PLAN.compared(),
        out=subpath(output[0], parent=True),
    log:
        f"{BUILD}/logs/aggregate.log",
    conda:
        "../envs/launchbench.yaml"
    message:
        "join the results"
    shell:
        "python -m launchbench aggregate --settings {SETTINGS:q} --out {params.out:q} 2>&1 | tee {log:q}"
