"""src/graphs.cu -> stand-alone program, fatbin, native loops and manifest, once for all cards."""


rule build:
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
        flags=lambda wildcards: build_flags(),
        source="src/graphs.cu",
        source_digest=lambda wildcards: file_digest("src/graphs.cu"),
        nvcc_lock="requirements-nvcc.lock",
        out=subpath(output.manifest, parent=True),
        wheels=f"{BUILD}/nvcc",
    message:
        "compile graphs.cu for {params.architectures} with {params.nvcc}"
    shell:
        ": > {log:q}; LAUNCHBENCH_LOG={log:q} python -m launchbench build --source {params.source:q} --out {params.out:q}"
        " --wheels {params.wheels:q} --nvcc-lock {params.nvcc_lock:q} 2>&1 | tee -a {log:q}"
