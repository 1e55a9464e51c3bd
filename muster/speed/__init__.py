"""How fast a job goes on what it was given: everything that predicts a throughput, and nothing else.

Small models, each returning stage seconds an iteration; `muster.speed.rates` composes them
(`max(input, compute + communication + update)`). The input stage:

- `muster.speed.input_pipeline`: CPU cores, memory cache and storage; compiled, for the hot path.
- `muster.speed.knee`: the smallest demand that reaches a model's best speed.

The others:

- `muster.speed.network`: communication that stays exposed on a placement, alone or among neighbours.
- `muster.speed.network_of_jobs`: the network of the jobs of a run or of the daemon.
- `muster.speed.measured_model`: a model with the steps that a job has shown on two numbers of GPUs.
- `muster.speed.parameter_server`: workers and servers, layer by layer.
"""
