"""results/ -> tables of repetitions, trials, modes, anatomy, summary, fits and gaps."""


rule aggregate:
    input:
        receipts=lambda wildcards: PLAN.all_receipts(),
        pointers=lambda wildcards: POINTERS.receipts(),
        lengths=lambda wildcards: LENGTHS.receipts(),
        decode=lambda wildcards: DECODE.receipts(),
    output:
        tidy=directory(f"{BUILD}/tables/tidy"),
        summary=report(
            f"{BUILD}/tables/summary.csv",
            category="Tables",
            caption="../report/summary.rst",
            labels={"table": "summary"},
        ),
        trials=report(
            f"{BUILD}/tables/trials.csv",
            category="Tables",
            caption="../report/trials.rst",
            labels={"table": "trials"},
        ),
        modes=report(
            f"{BUILD}/tables/modes.csv",
            category="Tables",
            caption="../report/modes.rst",
            labels={"table": "modes"},
        ),
        anatomy=report(
            f"{BUILD}/tables/anatomy.csv",
            category="Tables",
            caption="../report/anatomy_table.rst",
            labels={"table": "what a launch consists of"},
        ),
        unmeasured=report(
            f"{BUILD}/tables/unmeasured.csv",
            category="Tables",
            caption="../report/unmeasured.rst",
            labels={"table": "launch paths that could not be measured"},
        ),
        fits=report(
            f"{BUILD}/tables/fits.csv",
            category="Tables",
            caption="../report/fits.rst",
            labels={"table": "straight lines over N"},
        ),
        gaps=report(
            f"{BUILD}/tables/gaps.csv",
            category="Tables",
            caption="../report/gaps.rst",
            labels={"table": "what is missing"},
        ),
        pointers=report(
            f"{BUILD}/tables/pointers.csv",
            category="Tables",
            caption="../report/pointers.rst",
            labels={"table": "baked-in pointers"},
        ),
        cures=report(
            f"{BUILD}/tables/cures.csv",
            category="Tables",
            caption="../report/cures.rst",
            labels={"table": "cures"},
        ),
        pointers_gaps=report(
            f"{BUILD}/tables/pointers_gaps.csv",
            category="Tables",
            caption="../report/unusable.rst",
            labels={"table": "files of pointers jobs that cannot be used"},
        ),
        lengths=report(
            f"{BUILD}/tables/lengths.csv",
            category="Tables",
            caption="../report/lengths.rst",
            labels={"table": "kernel lengths by both clocks"},
        ),
        length_models=report(
            f"{BUILD}/tables/length_models.csv",
            category="Tables",
            caption="../report/length_models.rst",
            labels={"table": "clocks and model of each card"},
        ),
        crossovers=report(
            f"{BUILD}/tables/crossovers.csv",
            category="Tables",
            caption="../report/crossovers.rst",
            labels={"table": "until which kernel length a graph helps"},
        ),
        lengths_gaps=report(
            f"{BUILD}/tables/lengths_gaps.csv",
            category="Tables",
            caption="../report/unusable.rst",
            labels={"table": "files of lengths jobs that cannot be used"},
        ),
        decode=report(
            f"{BUILD}/tables/decode.csv",
            category="Tables",
            caption="../report/decode_table.rst",
            labels={"table": "the decode step over batch and width"},
        ),
        decode_jobs=report(
            f"{BUILD}/tables/decode_jobs.csv",
            category="Tables",
            caption="../report/decode_jobs.rst",
            labels={"table": "the decode step, predicted and measured"},
        ),
        decode_gaps=report(
            f"{BUILD}/tables/decode_gaps.csv",
            category="Tables",
            caption="../report/unusable.rst",
            labels={"table": "files of decode jobs that cannot be used"},
        ),
    log:
        f"{BUILD}/logs/aggregate.log",
    conda:
        "../envs/launchbench.yaml"
    params:
        code=digest(*AGGREGATING_MODULES),
        compared=PLAN.compared(),
        cached=lambda wildcards: PLAN.cached(),
        cached_pointers=lambda wildcards: POINTERS.cached(),
        cached_lengths=lambda wildcards: LENGTHS.cached(),
        cached_decode=lambda wildcards: DECODE.cached(),
        out=subpath(output.summary, parent=True),
    message:
        "join the results"
    shell:
        ": > {log:q}; LAUNCHBENCH_LOG={log:q} python -m launchbench aggregate --out {params.out:q} 2>&1 | tee -a {log:q}"
