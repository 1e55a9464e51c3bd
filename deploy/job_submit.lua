-- Has plain sbatch submit to Muster: jobs of these partitions are held and marked, and find Muster's folder of jobs.
--
-- Install it beside slurm.conf and set JobSubmitPlugins=lua there (docs/how-to/slurm.md). Left alone are interactive
-- jobs (srun, salloc), arrays, heterogeneous jobs, jobs with a dependency, and jobs that their owner holds.

local PARTITIONS = { train = true }
local JOBS = "/shared/muster/jobs" -- as `muster serve --jobs` has it

local MARK = "muster:"
local NO_VALUE = 4294967294 -- Slurm's NO_VAL: nothing was stated

local function partition_of(job, partitions)
    if job.partition ~= nil then
        return job.partition
    end
    for name, partition in pairs(partitions) do
        if partition.flag_default ~= 0 then
            return name
        end
    end
    return nil
end

local function is_stated(value)
    return value ~= nil and value ~= "" and value ~= NO_VALUE
end

local function is_for_muster(job, partitions)
    local partition = partition_of(job, partitions)
    return partition ~= nil and PARTITIONS[partition] and job.script ~= nil and not is_stated(job.array_inx)
        and not is_stated(job.dependency) and not is_stated(job.het_job_offset)
end

function slurm_job_submit(job, partitions, uid)
    local comment = job.comment or ""
    local is_muster = string.find(comment, "^muster:[^:,=]+:%d+$") ~= nil
    if is_muster or not is_for_muster(job, partitions) then
        return slurm.SUCCESS
    end
    local is_marked = string.sub(comment, 1, #MARK) == MARK
    if job.priority == 0 and not is_marked then
        return slurm.SUCCESS
    end
    if not is_marked then
        if comment ~= "" then
            slurm.log_user("Muster replaces the comment of this job")
        end
        job.comment = MARK
    end
    job.priority = 0
    job.environment["MUSTER_JOBS"] = JOBS
    return slurm.SUCCESS
end

function slurm_job_modify(job, record, partitions, uid)
    return slurm.SUCCESS
end

return slurm.SUCCESS
