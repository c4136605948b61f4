"""One job per card: binaries -> a record and a CSV of kernels of chosen lengths under results/, and a receipt."""


rule lengths:
    input:
        fatbin=f"{BUILD}/cuda/graphs.fatbin",
        library=f"{BUILD}/cuda/liblaunchloops.so",
        manifest=f"{BUILD}/cuda/build.json",
    output:
        receipt=f"{BUILD}/cells/{{site}}/{{label}}/{{card}}/lengths.{{lost}}.json",
    log:
        f"{BUILD}/logs/lengths/{{site}}/{{label}}/{{card}}/{{lost}}.log",
    conda:
        "../envs/launchbench.yaml"
    threads: 1
    resources:
        **{name: asked_of_cluster(name) for name in RESOURCES if CONFIG.slurm},
        measurements=1,
    params:
        protocol=LENGTHS.protocol("launch_counts", "length_repetitions", "warmup_ms"),
        code=digest(*LENGTHS_MODULES),
        binaries=subpath(input.fatbin, parent=True),
    message:
        "two clocks and kernel lengths on {wildcards.label} (card {wildcards.card})"
    shell:
        ": > {log:q}; LAUNCHBENCH_LOG={log:q} python -m launchbench lengths --site={wildcards.site:q}"
        " --label={wildcards.label:q} --card={wildcards.card:q} --binaries {params.binaries:q}"
        " --receipt {output.receipt:q} 2>&1 | tee -a {log:q}"
