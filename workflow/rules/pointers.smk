"""One job per card: binaries -> a record, a CSV and the sanitizer's reports under results/, and a receipt."""


rule pointers:
    input:
        program=f"{BUILD}/cuda/graphs",
        fatbin=f"{BUILD}/cuda/graphs.fatbin",
        library=f"{BUILD}/cuda/liblaunchloops.so",
        manifest=f"{BUILD}/cuda/build.json",
    output:
        receipt=f"{BUILD}/cells/{{site}}/{{label}}/{{card}}/pointers.{{lost}}.json",
    log:
        f"{BUILD}/logs/pointers/{{site}}/{{label}}/{{card}}/{{lost}}.log",
    conda:
        "../envs/launchbench.yaml"
    threads: 1
    resources:
        **{name: asked_of_cluster(name) for name in RESOURCES if CONFIG.slurm},
        measurements=1,
    params:
        protocol=POINTERS.protocol("launch_counts", "cure_repetitions", "warmup_rounds", "warmup_ms"),
        code=digest(*POINTERS_MODULES),
        binaries=subpath(input.fatbin, parent=True),
    message:
        "baked-in pointers on {wildcards.label} (card {wildcards.card})"
    shell:
        ": > {log:q}; LAUNCHBENCH_LOG={log:q} python -m launchbench pointers --site={wildcards.site:q}"
        " --label={wildcards.label:q} --card={wildcards.card:q} --binaries {params.binaries:q}"
        " --receipt {output.receipt:q} 2>&1 | tee -a {log:q}"
