"""One job per card: binaries -> a record and a CSV of a decode step by PyTorch under results/, and a receipt."""


rule decode:
    input:
        fatbin=f"{BUILD}/cuda/graphs.fatbin",
        library=f"{BUILD}/cuda/liblaunchloops.so",
        manifest=f"{BUILD}/cuda/build.json",
    output:
        receipt=f"{BUILD}/cells/{{site}}/{{label}}/{{card}}/decode.{{lost}}.json",
    log:
        f"{BUILD}/logs/decode/{{site}}/{{label}}/{{card}}/{{lost}}.log",
    conda:
        "../envs/launchbench.yaml"
    threads: 1
    resources:
        **{name: asked_of_cluster(name) for name in RESOURCES if CONFIG.slurm},
        measurements=1,
    params:
        # Where it was not run for want of PyTorch, it is once that is there.
        torch=installed(),
        code=digest(*DECODE_MODULES),
        binaries=subpath(input.fatbin, parent=True),
    message:
        "a decode step on {wildcards.label} (card {wildcards.card})"
    shell:
        ": > {log:q}; LAUNCHBENCH_LOG={log:q} python -m launchbench decode --site={wildcards.site:q}"
        " --label={wildcards.label:q} --card={wildcards.card:q} --binaries {params.binaries:q}"
        " --receipt {output.receipt:q} 2>&1 | tee -a {log:q}"
