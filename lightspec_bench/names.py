"""Names of what ships: plain tables, name -> "module:Class", which `lightspec_bench.registry` resolves."""

from __future__ import annotations

SECTIONS = {
    "references": {
        "none": "lightspec_bench.planners.none:NoSpeculation",
        "static": "lightspec_bench.planners.static:Static",
        "oracle": "lightspec_bench.planners.oracle:Oracle",
    },
    "schedules and gates": {
        "schedule": "lightspec_bench.planners.schedule:Schedule",
        "trtllm-schedule": "lightspec_bench.planners.trtllm_schedule:TrtLlmSchedule",
        "trtllm-gate": "lightspec_bench.planners.trtllm_gate:TrtLlmGate",
        "trtllm-max-concurrency": "lightspec_bench.planners.trtllm_max_concurrency:TrtLlmMaxConcurrency",
    },
    "acceptance trackers and history": {
        "acceptance-target": "lightspec_bench.planners.acceptance_target:AcceptanceTarget",
        "sglang-ema": "lightspec_bench.planners.sglang_ema:SGLangEma",
        "sglang-autospec": "lightspec_bench.planners.sglang_autospec:SGLangAutoSpec",
        "vllm-eagle-dynamic": "lightspec_bench.planners.vllm_eagle_dynamic:VllmEagleDynamic",
        "vllm-position-acceptance": "lightspec_bench.planners.vllm_position_acceptance:VllmPositionAcceptance",
        "hf-heuristic": "lightspec_bench.planners.hf_heuristic:HFHeuristic",
        "llamacpp-mtp-adaptive": "lightspec_bench.planners.llamacpp_mtp_adaptive:LlamaCppMtpAdaptive",
        "request-ema": "lightspec_bench.planners.request_ema:RequestEMA",
        "dsde": "lightspec_bench.planners.dsde:DSDE",
    },
    "cost models": {
        "lightspec-reference": "lightspec_bench.planners.lightspec_reference:LightSpecReference",
        "lightspec": "lightspec_bench.planners.lightspec:LightSpec",
        "dspark": "lightspec_bench.planners.dspark:DSpark",
        "turbospec": "lightspec_bench.planners.turbospec:TurboSpec",
        "vllm-dsd-online": "lightspec_bench.planners.vllm_dsd_online:VllmDsdOnline",
        "vllm-adaptive-k": "lightspec_bench.planners.vllm_adaptive_k:VllmAdaptiveK",
        "vllm-live-schedule": "lightspec_bench.planners.vllm_live_schedule:VllmLiveSchedule",
        "vllm-dflash-adaptive-k": "lightspec_bench.planners.vllm_dflash_adaptive_k:VllmDFlashAdaptiveK",
        "vllm-adaptive-verification": "lightspec_bench.planners.vllm_adaptive_verification:VllmAdaptiveVerification",
        "vllm-verify-adaptive": "lightspec_bench.planners.vllm_verify_adaptive:VllmVerifyAdaptive",
        "sglang-throughput-aware": "lightspec_bench.planners.sglang_throughput_aware:SGLangThroughputAware",
        "dspark-paper": "lightspec_bench.planners.dspark_paper:DSparkPaper",
        "dspark-sglang": "lightspec_bench.planners.dspark_sglang:DSparkSGLang",
        "dspark-tensorrt-llm": "lightspec_bench.planners.dspark_tensorrt_llm:DSparkTensorRTLLM",
        "tetris": "lightspec_bench.planners.tetris:Tetris",
        "adaserve": "lightspec_bench.planners.adaserve:AdaServe",
    },
    "draft-side exits": {
        "confidence-exit": "lightspec_bench.planners.confidence_exit:ConfidenceExit",
        "hf-confidence": "lightspec_bench.planners.hf_confidence:HFConfidence",
        "svip": "lightspec_bench.planners.svip:SVIP",
        "adaedl": "lightspec_bench.planners.adaedl:AdaEDL",
        "draft-and-verify": "lightspec_bench.planners.draft_and_verify:DraftAndVerify",
        "specdec-plus-plus": "lightspec_bench.planners.specdec_plus_plus:SpecDecPlusPlus",
        "llamacpp": "lightspec_bench.planners.llamacpp:LlamaCpp",
        "entropy-trigger": "lightspec_bench.planners.entropy_trigger:EntropyTrigger",
    },
    "bandits": {
        "banditspec-ucb": "lightspec_bench.planners.banditspec_ucb:BanditSpecUCB",
        "banditspec-exp3": "lightspec_bench.planners.banditspec_exp3:BanditSpecEXP3",
        "flashspec-ucb1": "lightspec_bench.planners.flashspec_ucb1:FlashSpecUCB1",
        "flashspec-thompson": "lightspec_bench.planners.flashspec_thompson:FlashSpecThompson",
        "ik-llama-autotune": "lightspec_bench.planners.ik_llama_autotune:IkLlamaAutotune",
        "nightjar": "lightspec_bench.planners.nightjar:Nightjar",
    },
    "wrappers": {
        "clamp": "lightspec_bench.planners.clamp:Clamp",
        "depth-limit": "lightspec_bench.planners.depth_limit:DepthLimit",
        "hysteresis": "lightspec_bench.planners.hysteresis:Hysteresis",
        "dwell": "lightspec_bench.planners.dwell:Dwell",
        "schedule-cap": "lightspec_bench.planners.schedule_cap:ScheduleCap",
        "slo": "lightspec_bench.planners.slo:Slo",
        "stock": "lightspec_bench.planners.stock:Stock",
    },
}
PLANNERS = {name: target for section in SECTIONS.values() for name, target in section.items()}
RUNNERS = {
    "simulated": "lightspec_bench.runners.simulated:SimulatedRunner",
    "torch": "lightspec_bench.runners.torch_runner:TorchRunner",
}
IMPORTERS = {
    "jsonl": "lightspec_bench.traces.jsonl:JsonLines",
    "step-log": "lightspec_bench.traces.step_log:StepLog",
    "levvius": "lightspec_bench.traces.levvius:Levvius",
    "specdecode-bench": "lightspec_bench.traces.specdecode_bench:SpecDecodeBench",
    "vllm-log": "lightspec_bench.traces.vllm_log:VllmLog",
    "vllm-prometheus": "lightspec_bench.traces.vllm_prometheus:VllmPrometheus",
    "vllm-requests": "lightspec_bench.traces.vllm_requests:VllmRequests",
    "vllm-bench": "lightspec_bench.traces.vllm_bench:VllmBench",
    "sglang-log": "lightspec_bench.traces.sglang_log:SGLangLog",
    "llamacpp-log": "lightspec_bench.traces.llamacpp_log:LlamaCppLog",
    "trtllm-stats": "lightspec_bench.traces.trtllm_stats:TrtLlmStats",
    "lightllm-log": "lightspec_bench.traces.lightllm_log:LightLLMLog",
}
