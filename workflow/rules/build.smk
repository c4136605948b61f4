"""src/graphs.cu -> stand-alone program, fatbin, native loops and manifest, once for all cards."""


rule build:
    input:
        source="src/graphs.cu",
        nvcc_lock="requirements-nvcc.lock",
    output:
        program=f"{BUILD}/cuda/graphs",
        fatbin=f"{BUILD}/cuda/graphs.fatbin",
        library=f"{BUILD}/cuda/liblaunchloops.so",
        manifest=f"{BUILD}/cuda/build.json",
    log:
        f"{BUILD}/logs/build.log",
    conda:
        "../envs/launchbench.yaml"
    params:
        architectures=list(CONFIG.architectures),
        nvcc=lambda wildcards: PLAN.nvcc_identity(),
        out=subpath(output.manifest, parent=True),
        wheels=f"{BUILD}/nvcc",
    message:
        "compile graphs.cu for {params.architectures} with {params.nvcc}"
    shell:
        "python -m launchbench build --source {input.source:q} --out {params.out:q}"
        " --wheels {params.wheels:q} --nvcc-lock {input.nvcc_lock:q} 2>&1 | tee {log:q}"
