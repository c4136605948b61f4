"""tables -> reports/comparison.html and its figures, each also an entry of Snakemake's own report."""

FIGURES = {
    "speedup": "Speed-up of replay over the loop",
    "times": "Loop and replay over N",
    "placements": "Distribution over placements",
    "anatomy": "What a launch consists of",
    "ladder": "From the loop down to one kernel",
    "break_even": "When a graph has paid for itself",
    "launch_paths": "Launch paths",
    "kernel_length": "Speed-up over kernel length",
    "clocks": "One loop by two clocks",
    "decode": "The decode step over batch and width",
}


rule report:
    input:
        tidy=rules.aggregate.output.tidy,
        summary=rules.aggregate.output.summary,
        trials=rules.aggregate.output.trials,
        modes=rules.aggregate.output.modes,
        anatomy=rules.aggregate.output.anatomy,
        unmeasured=rules.aggregate.output.unmeasured,
        fits=rules.aggregate.output.fits,
        gaps=rules.aggregate.output.gaps,
        pointers=rules.aggregate.output.pointers,
        cures=rules.aggregate.output.cures,
        pointers_gaps=rules.aggregate.output.pointers_gaps,
        lengths=rules.aggregate.output.lengths,
        length_models=rules.aggregate.output.length_models,
        crossovers=rules.aggregate.output.crossovers,
        lengths_gaps=rules.aggregate.output.lengths_gaps,
        decode=rules.aggregate.output.decode,
        decode_jobs=rules.aggregate.output.decode_jobs,
        decode_gaps=rules.aggregate.output.decode_gaps,
    output:
        page=report(
            f"{REPORTS}/comparison.html",
            category="Comparison",
            caption="../report/comparison.rst",
            labels={"page": "the whole comparison"},
        ),
        svg=[
            report(
                f"{REPORTS}/figures/{name}.svg",
                category="Figures",
                caption=f"../report/{name}.rst",
                labels={"figure": title},
            )
            for name, title in FIGURES.items()
        ],
        spread=report(
            f"{REPORTS}/spread.csv",
            category="Tables",
            caption="../report/spread.rst",
            labels={"table": "cards of one type against each other"},
        ),
        png=[f"{REPORTS}/figures/{name}.png" for name in FIGURES],
    log:
        f"{BUILD}/logs/report.log",
    conda:
        "../envs/launchbench.yaml"
    threads: 2
    params:
        code=digest(*REPORTING_MODULES),
        compared=PLAN.compared(),
        published=published_identity(CONFIG),
        tables=subpath(input.summary, parent=True),
    message:
        "render {output.page}"
    shell:
        ": > {log:q}; LAUNCHBENCH_LOG={log:q} python -m launchbench report --processes {threads} --tables {params.tables:q} 2>&1 | tee -a {log:q}"
