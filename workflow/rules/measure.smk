"""One job per card, N and trial: binaries -> a CSV and a record under results/, which no rule owns, and a receipt."""


rule measure:
    input:
        fatbin=f"{BUILD}/cuda/graphs.fatbin",
        library=f"{BUILD}/cuda/liblaunchloops.so",
        manifest=f"{BUILD}/cuda/build.json",
    output:
        receipt=f"{BUILD}/cells/{{site}}/{{label}}/{{card}}/n{{launch_count}}.t{{trial}}.{{lost}}.json",
    log:
        f"{BUILD}/logs/measure/{{site}}/{{label}}/{{card}}/n{{launch_count}}.t{{trial}}.{{lost}}.log",
    # Before the decode step, which is predicted from what a launch costs.
    priority: 1
    conda:
        "../envs/launchbench.yaml"
    threads: 1
    resources:
        **{name: asked_of_cluster(name) for name in RESOURCES if CONFIG.slurm},
        measurements=1,
    params:
        protocol=PLAN.protocol(),
        code=digest(*MEASURING_MODULES),
        binaries=subpath(input.fatbin, parent=True),
    message:
        "measure {wildcards.label} (card {wildcards.card}) at N = {wildcards.launch_count}, trial {wildcards.trial}"
    shell:
        ": > {log:q}; LAUNCHBENCH_LOG={log:q} python -m launchbench measure --site={wildcards.site:q}"
        " --label={wildcards.label:q} --card={wildcards.card:q} --launch-count={wildcards.launch_count:q}"
        " --trial={wildcards.trial:q} --binaries {params.binaries:q} --receipt {output.receipt:q} 2>&1 | tee -a {log:q}"
