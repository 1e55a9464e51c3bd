"""The network between a job's GPUs: seconds of communication an iteration that its compute does not hide.

How the simulator asks, in arrays (everything else here serves this):

    models, notes = model_file.network_models(names)           # by name; None: insensitive, said in notes
    speed = speed.NetworkSpeed(models, cluster, flavour="physical", congestion=0.0)
    placements = placement.Placements(first, nodes, gpu_bits)   # rows of all jobs, job after job
    shapes = placement.shapes_of(placements, speed.tree)        # SHAPE_DTYPE, one a job
    speed.exposed_seconds(model_indices, shapes)                # alone; cached by (model, shape)
    speed.efficiency(model_indices, shapes)                     # compute / (compute + exposed)
    speed.contended_seconds(model_indices, placements)          # all these jobs side by side
    speed.contended_efficiency(model_indices, placements)

Seconds are those of the model's own profile (`speed.compute_seconds`); for a job whose compute lasts
otherwise, the efficiency is what carries over. `contended_*` has to be asked again for all jobs that leave
their machine whenever one of them starts, stops or moves.

- `collectives`: ring, halving-doubling, direct, double binary tree; baseline and bandwidth-aware hierarchies
- `placement`, `dimensions`, `tree`: from rows of GPUs to the links over which an all-reduce runs
- `overlap`: what of it hides behind the backward pass
- `contention`: max-min fair shares of the uplinks, while several gangs send
- `models`, `layers`, `model_file`: what is known of a model, from a layer file or a few numbers
- `survey`: one model on every kind of placement
"""
