"""tables -> reports/comparison.html and its figures."""


rule report:
    input:
        tables=rules.aggregate.output,
    output:
        page=f"{REPORTS}/comparison.html",
    log:
        f"{BUILD}/logs/report.log",
    conda:
        "../envs/launchbench.yaml"
    shell:
        "true"
