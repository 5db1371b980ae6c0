"""Every message in English: code → template. `messages` says what the fields of a template mean.

A reason starts with a capital letter, names what it is about and ends with what the user can do. What is wrong
with a field follows the field's name, so it starts with a verb.
"""

from __future__ import annotations

from collections.abc import Mapping

ARRANGEMENTS: Mapping[str, str] = {
    # Arrange other messages and have no part of their own: every language has its own punctuation.
    "all.sentences": "{sentences: }",
    "all.advised": "{reason}. {advice}",
    "all.needs": "Needs {request}: {state}. {advice}",
    "all.not": "{expected}, not {given}",
    "all.got": "{limit}, got {given}",
    "all.has": "{expected}, has {given}",
}

SENTENCES: Mapping[str, str] = {
    # What a trial asks for.
    "wish.slots": "{slots:{slot_type} slot} in pool {pool}",
    "wish.elastic_slots": "{least} to {slots:{slot_type} slot} in pool {pool}",
    "wish.roles": "for {roles:and}",
    "wish.role": "{num} × {role} ({slots:slot})",
    "wish.nodes": "on exactly {nodes:node}",
    "wish.max_nodes": "on at most {nodes:node}",
    "wish.labels": "on nodes with {labels}",
    "wish.isolation": "on nodes with isolation level {level}",
    "wish.container": "on nodes with a container engine",
    "wish.within": "within one {key}",
    "wish.only_on": "only on {nodes}",
    "wish.not_on": "not on {nodes}",
    "wish.without": "avoiding {nodes} ({reason})",
    # Why it waits.
    "pending.no_such_slots": "no node there has {slot_type} slots",
    "pending.none_allowed": "no node there meets its constraints ({nodes:node} in total)",
    "pending.too_few": "only {slots} in total",
    "pending.indivisible": "the slots of {nodes:node} cannot be divided that way",
    "pending.no_node_for_member": "no node has room for {member} ({slots:slot}) beside the other members, even when nothing else runs",
    "pending.no_room_for_member": "no node has {slots:free slot} for {member} beside the other members",
    "pending.no_domain": "no {key} has room for it, even when nothing else runs",
    "pending.ends_soon": "too little time left on {nodes:node} there",
    "pending.ends_before": "too little time left on {nodes:node} there for its time limit of {minutes} min",
    "pending.avoids": "the other nodes have no room for it",
    "pending.no_isolation": "no node offers isolation level {level}",
    "pending.pool_isolation": "no node there offers isolation level {level}, which the pool requires",
    "pending.pool_containers": "jobs there must run in containers, and the document names no image",
    "pending.pool_images": "the image {image} is not among those that the pool allows ({allowed})",
    "pending.no_container": "no node there has a container engine that works, which a container image needs",
    "pending.free": "{slots} free on {nodes:node}",
    "pending.none_free": "none free",
    "pending.scattered": "but the free slots cannot be used together",
    "pending.held": "{slots} held by experiment {experiment:#}",
    "pending.held_by_others": "{slots} held by others",
    "pending.kept_for_it": "{slots} reserved for it",
    "pending.kept_for": "{slots} reserved for trial {trial_no:#} of experiment {experiment:#} (ahead in the queue)",
    "pending.spares": "{nodes:node is|nodes are} held as a spare for trainings that lose a node",
    "pending.beside_spares": "there is not enough beside {nodes:node} held as a spare for trainings that lose a node",
    "pending.on_shut_node": "{slots} on {state} node {node}",
    "pending.on_other_shut_nodes": "{slots} on {nodes:other unavailable node}",
    "pending.maintenance": "{slots} on {nodes:node} in maintenance ({window}: {reason})",
    "pending.maintenance_ahead": "its time limit of {limit} would reach into a maintenance ({window}: {reason})",
    "pending.maintenance_pilots": "nothing is requested during the maintenance ({window}: {reason})",
    "pending.reserved": "{slots} on {nodes:node} reserved (reservation {number:#} for {whom})",
    "pending.reserved_ahead": "its time limit of {limit} would reach into reservation {number:#} (for {whom})",
    "pending.on_slot": "{problem}",
    "pending.on_other_slots": "{slots:other slot} taking no new work",
    "pending.on_weak_nodes": "{slots} on {nodes:node} below isolation level {level}, which the pool requires",
    "pending.quota": "the quota of project {project} there is {slots:slot}",
    "pending.quota_held": "{slots} in use",
    "pending.quota_ahead": "{slots} needed by its trials ahead in the queue",
    "pending.coming_free": "waiting for slots of {givers:and}",
    "pending.giver": "trial {trial_no:#} of experiment {experiment:#}",
    "pending.more_givers": "{num:other trial}",
    "pending.files": "the last files that it wrote on {nodes:and} are being collected",
    "pending.node": "{node}",
    "pending.more_nodes": "{nodes:other node}",
    "pending.next_pass": "Will be considered in the next scheduling pass: this one has already started {num:trial}",
    "pending.restarts": "Restarts at {at}: {reason}",
    "pending.owner_deactivated": "The account of its owner {owner} is deactivated or refused by its provider",
    "pending.after": "Starts after other experiments: {experiments:and}",
    "pending.after_success": "experiment {experiment:#} must be COMPLETED (it is {state})",
    "pending.after_any": "experiment {experiment:#} must have ended (it is {state})",
    "pending.more_experiments": "{num:other experiment}",
    "pending.external": "Waiting for an external worker to claim it",
    # What a pool's provider does for it.
    "pilots.asked": "{pilots:pilot} of {provider} requested",
    "pilots.coming": "waiting for {pilots:pilot} of {provider}",
    "pilots.silent": "waiting for {pilots:pilot}; {provider} does not answer ({problem})",
    "pilots.pending": "waiting for {pilots:pilot} of {provider} (job {job}: {reason})",
    "pilots.expected": "waiting for {pilots:pilot} of {provider} (job {job}: {reason}, expected {at})",
    "pilots.here": "pilots of {provider} have room for it",
    "pilots.soon": "{pilots:pilot} of {provider} will be requested",
    "pilots.limit": "{provider} may have {limit:pilot}, and has {held}",
    "pilots.max_slot_hours": (
        "{provider} may use {limit} slot-hours: {used} are used, its pilots may use up to {reserved} more, and "
        "{pilots:other pilot} up to {needed}"
    ),
    "pilots.max_cost": (
        "{provider} may cost {limit} {currency}: {used} are spent, its pilots may cost up to {reserved} more, and "
        "{pilots:other pilot} up to {needed}"
    ),
    "pilots.backoff": "{provider} is asked again at {at}: {problem}",
    "pilots.too_few_slots": "it needs {slots:slot} on each node, and pilots of {provider} have {has}",
    "pilots.too_many_nodes": "it needs {nodes:node}, and {provider} may have {limit:pilot}",
    "pilots.too_long": "its time limit of {minutes} min does not fit into the wall time of {provider}, {walltime} min",
    # What helps, or that nothing has to be done.
    "help.fewer_slots": "Ask for at most {slots:slot}, or add nodes.",
    "help.other_slots": "Choose a `resources.slot_type` and pool that has slots, or add a node.",
    "help.loosen": "Loosen `resources.labels`, `allow_nodes` or `deny_nodes`, or add a node that meets them.",
    "help.isolation": "Lower `resources.isolation`, or set `MUSTER_AGENT_ISOLATION` on a node that meets the other conditions.",
    "help.container": "Install Podman or Docker on a node that meets the other conditions (`muster node show` says what is wrong there), or name no image (`environment.image`, of the job or of a role).",
    "help.pool_isolation": "Set `MUSTER_AGENT_ISOLATION` on its nodes, choose another pool, or have an administrator lower the level of pool {pool} (`muster pool isolation`).",
    "help.pool_containers": "Set `environment.image`, of the job or of each role, or choose another pool than {pool}.",
    "help.pool_images": "Choose an image that pool {pool} allows, or have an administrator allow it (`muster pool containers`).",
    "help.smaller_members": "Give each member fewer slots (`roles.NAME.resources.slots`), lower a `count`, or add nodes.",
    "help.uneven_now": "Set `resources.uneven: true` to start it now.",
    "help.uneven": "Set `resources.uneven: true` to make it fit.",
    "help.any_nodes": "Remove `resources.nodes` and `max_nodes` to make it fit.",
    "help.add_nodes": "Ask for fewer nodes, or add nodes.",
    "help.prefer": "Set `topology.mode: prefer` to let it spread over several {key}s.",
    "help.provider": "Change the document, or have an administrator change the provider of pool {pool}.",
    "help.cost": "Starts when pilots end before their time, or an administrator raises the limit of pool {pool} or counts anew.",
    "help.time_limit": "Lower `resources.max_duration`, or add nodes that have more time left.",
    "help.avoided": "The avoided nodes will be tried again; add another node that fits to start sooner.",
    "help.spares": "Ask for fewer slots, add nodes, or have an administrator hold fewer spares (`muster pool spares {pool}`).",
    "help.open_nodes": "Starts when unavailable nodes are back or open again (`muster node open`).",
    "help.maintenance": "Starts automatically after the maintenance.",
    "help.owner_deactivated": "Administrators and maintainers of the project can stop it or submit a copy; it starts if the account is activated again.",
    "help.maintenance_ahead": "Starts automatically after the maintenance; lower `resources.max_duration` to start before it.",
    "help.reserved": "Starts automatically when the reservation ends or is cancelled; another pool starts it sooner.",
    "help.reserved_ahead": "Starts automatically after the reservation; lower `resources.max_duration` to start before it.",
    "help.slots": "Starts when these slots take work again (`muster node show` says why they do not).",
    "help.wait": "Starts when enough slots are free; raise its priority or ask for fewer slots to start sooner.",
    "help.rest": "Starts when the other slots it needs are free.",
    "help.files": "Starts there as soon as there is room, or elsewhere when they are collected, at the latest two minutes after the last attempt ended.",
    "help.by_itself": "Starts automatically; there is nothing to do.",
    "help.quota": "Starts when trials of the project end or the quota is raised.",
    "help.within_quota": "Ask for at most {slots:slot}, or have the quota raised.",
    "help.budget": "Starts when that budget is raised.",
    "help.restarts": "Restarts automatically; stop it if you need to fix the cause first.",
    "help.ask": "Claim it with `muster search ask`.",
    "help.controller_log": "Look for `search_failed` in the controller's log.",
    "help.stop_and_continue": "Stop the experiment and continue it: its trials go on from their checkpoints.",
    # Where it goes.
    "placed.next": "Starts in the next scheduling pass with {placement}",
    "placed.slots": "{slots:slot}: {nodes}",
    "placed.on": "{slots} on {node}",
    "placed.more": "{nodes:more node}",
    "placed.outside": "Its trials run outside the cluster and use no slots",
    # Who has to make room, and for whom.
    "preempt.stop": (
        "gives up {slots:slot}: trial {trial_no:#} of experiment {experiment:#} has priority {priority} (this one "
        "{own_priority}) and needs {request}"
    ),
    "preempt.shrink": (
        "shrinks from {slots:slot} to {size}: trial {trial_no:#} of experiment {experiment:#} has priority {priority} "
        "(this one {own_priority}) and needs {request}"
    ),
    "preempt.grow": (
        "grows from {slots:slot} to {size}: they have been free for {seconds} s, and no waiting trial could use them"
    ),
    "preempt.reserved": "reservation {number:#} takes {nodes} ({whom})",
    "preempt.moved": "continues elsewhere with {size} of its {slots:slot}: reservation {number:#} takes {nodes} ({whom})",
    # Nodes.
    "node.nobody_heard": (
        "No heartbeat from any node since {at}: the API server or the network in front of it is down, or every node "
        "is. Nothing is restarted; everything continues with the next heartbeat. If a machine is gone for good, kill "
        "its trials or remove its node."
    ),
    "node.server_away": (
        "No heartbeat since {at}. API server {server}, which received the last one, is down: the silence does not "
        "count for up to {minutes} min. Start that server again, or point the agent to another one."
    ),
    "node.not_heard": (
        "No heartbeat since {at}. After {seconds} s of silence the node is lost, and its trials restart on other "
        "nodes. Check the machine, its agent and its network."
    ),
    "node.lost": (
        "No heartbeat since {at}, for {seconds} s of which the control plane could have received one. The node comes "
        "back automatically once its agent runs and reaches the server."
    ),
    "node.no_controller": (
        "No heartbeat since {at}, and no controller is running that could act on it: until one is, nothing is started "
        "or restarted. Start it with `muster-server controller`."
    ),
    "node.pilot_ends": (
        "Its time ends at {at}. Trials save a checkpoint and go on elsewhere; no restart is charged."
    ),
    "node.pilot_ended": "Its time ended at {at}, and nothing has been heard of it since.",
    "node.pilot_gone": "It was a pilot, and nothing has been heard of it since {at}.",
    "node.heard_again": "Heartbeats resumed in time.",
    "node.reconciled": "Everything it ran has been adopted or confirmed dead.",
    # Searches.
    "search.one_failed": "1 of {total:trial} failed (trial {first:#}): {reason}.",
    "search.all_failed_alike": "{num} of {total:trial} failed, all for the same reason: {reason}.",
    "search.some_failed_alike": (
        "{num} of {total:trial} failed. Of the first {read}, {alike} failed for the same reason as trial {first:#}: "
        "{reason}."
    ),
    "search.without_metric": (
        "{num} of {total:trial} that ended normally have no value of {metric}, by which this search compares trials. "
        "The first is trial {first:#}."
    ),
    "experiment.still_open": (
        "It has stood still for {minutes} min, longer than any of its attempts ran: nothing of it runs or is queued, "
        "and it has not ended."
    ),
    "search.still_undecided": (
        "This search has stood still for {minutes} min, longer than any of its trials ran: the controller has not "
        "decided on {events:event} of it."
    ),
    "search.still_waiting": (
        "This search has stood still for {minutes} min, longer than any of its trials ran: nothing of it runs or is "
        "queued, and {paused:paused trial} at a rung can no longer be judged."
    ),
    "search.reported_near": (
        "It reported {near}: is that the one? Correct `search.metric` or the name you log, and submit again."
    ),
    "search.reported_nothing": 'It reported no metrics. Log it with `muster.log({{"{metric}": …}})`.',
    "search.reported_others": "It reported {listed}. Set `search.metric` to one of these, or log {metric}.",
    # Scripts that run, and not as intended.
    "script.independent": (
        "{world:worker} train independently: in {steps:step} none has sent anything to another, so each trains a model "
        "of its own. Wrap the model in `DistributedDataParallel`; Accelerate on CPUs needs `ACCELERATE_USE_CPU=true` in "
        "`environment.variables`."
    ),
    "script.quiet": (
        "It has printed nothing and made no step for more than two minutes. That is normal while it downloads, compiles "
        "or evaluates; the stacks of its processes say where it is (`muster stacks --last`)."
    ),
    "script.no_step": (
        "It ended with exit code 0 and without a step of a torch optimizer. If it should have trained, its log says why."
    ),
    "script.no_loss": (
        "No loss in {steps:step}: the script logs it neither with `muster.log` nor with a library whose values are "
        "captured (docs/guides/libraries.md lists them). Add `import muster`, `muster.init()` and "
        "`muster.log({{'train/loss': loss}})` to the script."
    ),
    # The planner.
    "plan.script": (
        "What a script of your own needs is known only once it runs: run a few steps, then look at the trial's "
        "performance page."
    ),
    "plan.batch_auto": "`trainer.batch_size` is auto and set when training starts: give a number to plan with.",
    "plan.config": "This cannot be trained as written: {message}.",
    "plan.no_code": (
        "The model is in your own code, which was not uploaded: run `muster plan`, which uploads `code.path`."
    ),
    "plan.no_node": (
        "Memory and bytes are unknown until a node joins pool {pool}, because nodes list the layers of the model: "
        "start an agent."
    ),
    "plan.too_weak": (
        "Memory and byte counts are unknown: no node in pool {pool} isolates jobs as required, and "
        "listing the layers runs your code."
    ),
    "plan.containers": (
        "Memory and byte counts are unknown: jobs in pool {pool} must run in containers, and the layers of "
        "your own models are listed outside of them."
    ),
    "plan.old_agents": (
        "No online agent in pool {pool} can list the layers of the model: update the agents to this server's version."
    ),
    "plan.listing": "Node {node} is listing the layers of the model: wait a moment.",
    "plan.listing_failed": (
        "Node {node} could not list the layers of the model: {message}. Try again in {seconds} s."
    ),
    "plan.refused": (
        "The layers of the model cannot be listed: {message}. You can still submit the document: a run of a few steps "
        "shows what it needs."
    ),
    "plan.memory_more": (
        "It used more memory than its tensors need: on devices, workspaces of libraries and what the allocator cannot "
        "use are added. Lower `batch_size` if a slot gets tight."
    ),
    "plan.few_steps": "Measured over only {rows:step}, and the first ones are slower: wait for more.",
    "plan.step_differs": (
        "The machines or the network were busier or less busy than when the scaling report was made: create a new "
        "report to plan with."
    ),
    "plan.rare_exchange": (
        "Parameters are exchanged only once in {every:step}, and {rows:step} were measured: wait for more."
    ),
    "plan.powersgd_start": (
        "PowerSGD does not compress the first {exact:step}, and {rows:step} were measured: wait for more."
    ),
    "plan.stale_pulls": (
        "Workers of an asynchronous parameter server do not run in step, so what one of them sends per step varies: "
        "compare the mean over all workers."
    ),
    "plan.unexplained": (
        "No known cause explains the difference: do not rely on the predicted value, and report it together with the "
        "document."
    ),
    # Trials that have been run before.
    "checkpoints.only_on": (
        "Steps {first} to {last} are only on {node}: they are lost if it fails before they are stored."
    ),
    "checkpoints.only_in_parts": (
        "Steps {first} to {last} are only on the disks of {nodes}: they are lost if one of these fails before they "
        "are stored."
    ),
    "reuse.same": (
        "Same code, data, environment, parameters and seed as trial {trial}, which completed. `reuse: true` "
        "(`--reuse`) takes its result."
    ),
    "reuse.same_value": (
        "Same code, data, environment, parameters and seed as trial {trial}, which completed with {metric} {value}. "
        "`reuse: true` (`--reuse`) takes its result."
    ),
    "reuse.seed": "The script may ignore the seed, which it finds as `muster.init().seed`.",
    "reuse.some": (
        "{found} of the first {trials:trial} have been run before with the same inputs. `reuse: true` (`--reuse`) "
        "takes their results."
    ),
    "reuse.takes": "Takes the result of trial {trial}, which had the same inputs.",
    "reuse.takes_some": "{found} of the first {trials:trial} will take the results of finished trials.",
    # Budgets.
    "budget.used_up": (
        "The experiment has used up its budget of {limit} {unit}: {spent} {unit} spent"
    ),
    "budget.project_used_up": (
        "Project {project} has used up its budget of {limit} {unit}: {spent} {unit} spent"
    ),
    "budget.deadline_passed": "The budget deadline of the experiment, {at}, has passed",
    "budget.project_deadline_passed": "The budget deadline of project {project}, {at}, has passed",
    "budget.share_spent": "The experiment has spent {pct}% of its budget of {limit} {unit}: {spent} {unit}",
    "budget.project_share_spent": (
        "Project {project} has spent {pct}% of its budget of {limit} {unit}: {spent} {unit}"
    ),
    "budget.deadline_near": "{pct}% of the time until the budget deadline of the experiment, {at}, has passed",
    "budget.project_deadline_near": (
        "{pct}% of the time until the budget deadline of project {project}, {at}, has passed"
    ),
    # What bounds the time of a step.
    "bound.most": "Bound by {cause}: {pct}% of the {whole} ({ms} of {whole_ms} ms).",
    "bound.largest": (
        "Largest avoidable cost: {cause}, {pct}% of the {whole} ({ms} of {whole_ms} ms); computing takes "
        "{computing_pct}%."
    ),
    "bound.none": (
        "No single cost stands out: the largest, {cause}, is {pct}% of the {whole} ({whole_ms} ms); computing takes "
        "{computing_pct}%."
    ),
    "bound.too_early": (
        "Too early to say after {steps:step}: so far {cause} takes {pct}% of the {whole} ({whole_ms} ms), {next} "
        "{next_pct}%."
    ),
    "bound.undecided": (
        "Too early to say even after {steps:step}: {cause} takes {pct}% of the {whole} ({whole_ms} ms), {next} "
        "{next_pct}%, and the difference may be chance."
    ),
    "bound.not_firm": "These figures vary from step to step. A verdict follows when more steps are measured.",
    "bound.communication": (
        "This is moving data, without the time spent waiting for late ranks. Accumulate gradients over {k} "
        "micro-batches (`strategy.accumulate`) to bring it to {left}%, or use larger batches per worker."
    ),
    "bound.averaged": (
        "Steps are short, so measurements are means of about {steps:step}: ranks that are late by turns within them "
        "look like communication. Trace a few steps to see which it is."
    ),
    "bound.messages": (
        "Who receives a message from another rank also waits until it is sent, and the two look alike. If these are "
        "the stages of a pipeline, mark them: `with timer.pipeline(stage)`."
    ),
    "bound.bubble": (
        "Pipeline stages wait for each other. Fill the bubble with more micro-batches (`strategy.accumulate`), or use "
        "the interleaved or zero_bubble schedule."
    ),
    "bound.imbalance": (
        "The slowest stage computes {imbalance_pct}% longer than the mean: give it fewer blocks "
        "(`strategy.blocks_per_stage`)."
    ),
    "bound.data": "The workers are faster than the input: use more loader workers or a cache.",
    "bound.checkpoint": "Write checkpoints less often (`checkpoints.every`).",
    "bound.optimizer": (
        "A fused or sharded optimizer (strategy zero1 or fsdp) and gradient accumulation make it cheaper."
    ),
    "bound.outside": (
        "The training thread works or waits outside the modules of the model: batches made by hand, logging, copies, "
        "sleep, files or the network. Trace a few steps to see which."
    ),
    "bound.outside_idle": (
        "The training thread waits for something that is no part of the training: sleep, files, the network, or "
        "another process. Stacks of the workers show where."
    ),
    "bound.outside_busy": (
        "The training thread runs code outside the modules of the model: batches made by hand, logging, copies, a loss "
        "or a model that is no nn.Module. Trace a few steps to see which."
    ),
    "bound.without_gradients": (
        "These are modules that run without gradients: a validation written by hand, a teacher, or acting in an "
        "environment. Run them less often or in larger batches."
    ),
    "bound.validation": "Validation runs between the steps. Validate less often or on fewer samples.",
    "bound.computation": "Forward and backward passes are most of the step.",
    "bound.next": "The largest avoidable cost is {cause} with {pct}%.",
    "bound.many": "Trace a few steps to see what they are made of.",
    "bound.late_steps": (
        "Rank {rank:#} is late in {late} of {num:step}; the others wait {ms} ms for it in each of these."
    ),
    "bound.late_stretches": (
        "Rank {rank:#} is late in {late} of {num} stretches of {width:step}; there the others wait {ms} ms a step for it."
    ),
    "bound.late_part": "Its {part} takes {excess_ms} ms longer there than that of the others.",
    "bound.unexplained": "No part of its own step explains it: check its node and what else runs there.",
    "bound.by_turns": (
        "No rank is late more than chance makes it: they wait for each other by turns, as with inputs of different "
        "sizes or other programs on the machines."
    ),
    "bound.unmeasured": (
        "Communication of these ranks is not measured, so waiting for it is within the other parts: run a diagnosis "
        "to see how much it is."
    ),
    "measured.timeline": (
        "Communication and the parts of the step come from the kernel timeline: {num} of {steps:step}."
    ),
    "measured.recorder": (
        "Counts and bytes of collectives come from torch's flight recorder: {steps:step}."
    ),
    # Where slot-seconds went.
    "continuation.proven": "Every sample was used once in each epoch: {num} in all, with {restarts:restart}.",
    "continuation.same_curve": (
        "Its {metric} is that of trial {trial}, which ran without a break, at {num:point} of {width:step} each."
    ),
    "continuation.other_curve": (
        "Its {metric} differs from that of trial {trial}, which ran without a break, by at most {difference}, at "
        "step {step}: {num:point} of {width:step} each were compared."
    ),
    "continuation.repeated": (
        "{num:sample was|samples were} used more than once: in epoch {epoch:#}, attempt {no:#} was given again what its "
        "checkpoint had been trained with."
    ),
    "continuation.skipped": (
        "{num:sample was|samples were} skipped: in epoch {epoch:#}, attempt {no:#} went on behind them."
    ),
    "continuation.unconfirmed": (
        "{num:sample was|samples were} not confirmed by every rank: attempt {no:#} ended in epoch {epoch:#} before its ranks "
        "had told how far they were. Call `state_dict` on all ranks to have each tell at every checkpoint."
    ),
    "continuation.unknown_save": (
        "Not known: attempt {no:#} went on from step {step:#}, and nobody told which samples that checkpoint "
        "had been trained with."
    ),
    "continuation.silent": (
        "Not known: {num} of {of} ranks of attempt {no:#} did not tell which samples they were given."
    ),
    "continuation.cut": (
        "Not known: rank {rank:#} of attempt {no:#} jumped between samples more often than is recorded."
    ),
    "continuation.other_data": (
        "Not known: the data set had {num:sample} in attempt {no:#}, and {before} before."
    ),
    "continuation.other_order": (
        "Not known: the samples of attempt {no:#} came in another order ({order}; before: {before})."
    ),
    # What a guard has seen and done.
    "guard.fired": "Guard {guard} acted at step {step}: {why}.",
    "guard.nan": "{metric} is NaN",
    "guard.infinite": "{metric} is infinite",
    "guard.silent": "there has been no step for {minutes} min",
    "guard.straggler": "rank {rank:#} has held up the others for {share} of the step over {minutes} min",
    "guard.spike": "{metric} {value} is {times} times the median of {num:value}",
    "guard.below_median": (
        "{metric} has been below {share} of its median {median} for {minutes} min, and is {value} now"
    ),
    "guard.plateau_steps": "{metric} has changed by {change} within {length:step}, less than {limit}",
    "guard.plateau_values": "{metric} has changed by {change} within {length:value}, less than {limit}",
    "guard.above": "{metric} {value} is above {limit}",
    "guard.below": "{metric} {value} is below {limit}",
    "guard.ending": "The attempt is already ending.",
    "guard.leaving": "The trial is already being stopped or paused.",
    "guard.stopped": "The trial is stopped.",
    "guard.no_checkpoint": "No checkpoint from before the trouble exists.",
    "guard.no_node": "No other node can run it.",
    "guard.goes_back": "It goes back to the checkpoint of step {step}.",
    "guard.goes_to_source": "It goes back to the checkpoint that it was forked from.",
    "guard.skips": "It goes on {num} samples later, behind those of the steps since.",
    "guard.skips_none": "It skips no samples: no rank has told which ones its steps have used.",
    "guard.changed": "{name} is {new} instead of {old}.",
    "guard.leaves": "It restarts without {nodes}.",
    "guard.leaves_late": "It restarts without {nodes}, where rank {rank:#} held up the others.",
    "goodput.lost": "{pct}% of the slot time moved no training forward.",
    "goodput.nothing_lost": "{pct}% of the slot time was lost.",
    "goodput.unmeasured": (
        "Unknown: {pct}% of the slot time has no measured steps. Steps are measured with PyTorch, or with "
        "`muster.log`."
    ),
    "goodput.preparing": "{pct}% went into preparing nodes: environment, image, code and checks.",
    "goodput.starting": "{pct}% passed before the first step: imports, rendezvous, loading and compiling.",
    "goodput.restoring": "{pct}% went into loading checkpoints.",
    "goodput.saving": "{pct}% was spent waiting for checkpoints to be saved.",
    "goodput.repeated": "{pct}% were steps that had to be repeated after a restart.",
    "goodput.repeated_after": "{pct}% were steps that had to be repeated after {num:restart}.",
    "goodput.stalled": "{pct}% passed in steps that stalled and then went on.",
    "goodput.undetected": "{pct}% passed in silence after the last step.",
    "goodput.finishing": "{pct}% passed between the last step and the exit of the processes.",
    "goodput.stopping": "{pct}% went into stopping processes and freeing slots.",
    "goodput.idle": "{pct}% had no steps and no device in use.",
    "goodput.abandoned": "{pct}% was work that nothing used: its trial failed or was stopped.",
    "goodput.save_interval": (
        "A checkpoint every {steps:step} would lose {pct}% of the time instead of {current_pct}%: a save takes "
        "{save_s} s, and as many slots of this pool fail every {hours} h."
    ),
    # What would have been enough for a run.
    "efficiency.slots": (
        "Asked for {slots:slot}, computation used {used} on median: the GPUs were {pct}% in use, in {num:sample}. Try fewer "
        "slots, or larger batches."
    ),
    "efficiency.slot": (
        "The GPU was {pct}% in use on median, in {num:sample}. Try a larger batch, or look at what limits a step on the "
        "Performance tab."
    ),
    "efficiency.preparing": (
        "The start took {pct}% of the slot time, {part}% of it to prepare nodes: environment, image, code and checks."
    ),
    "efficiency.starting": (
        "The start took {pct}% of the slot time, {part}% of it before the first step: imports, loading and compiling."
    ),
    "efficiency.restoring": (
        "The start took {pct}% of the slot time, {part}% of it to load checkpoints."
    ),
    # Slots that do nothing.
    # What a schedule did at a time.
    "report.no_runs": "No run matches.",
    "report.too_many_runs": "More than {limit} runs match. Narrow the choice of runs.",
    "report.no_baseline": "The baseline, trial {trial}, is not among these runs.",
    "report.too_large": (
        "What the report shows would exceed {mib} MiB here. Move some blocks to another report."
    ),
    "schedule.started": "Started at its time.",
    "schedule.made_up": "Started once for several times at which no controller ran.",
    "schedule.replaced": "Started, after experiment {experiment} of the time before was told to stop.",
    "schedule.skipped": "Not started: experiment {experiment} of the time before has not ended.",
    "schedule.by_hand": "Started by {name} beside its times.",
    "schedule.no_owner": "Not started: its owner has no account any more.",
    "schedule.owner_inactive": "Not started: the account {name} is deactivated.",
    "schedule.refused": "Not started: {problem}",
    "waste.no_step": "No step for {minutes} min, while its slots are held.",
    "waste.idle": "No GPU used by {pct}% or more for {minutes} min, while its slots are held.",
    "waste.saves": "It saves a checkpoint and stops at {at} unless it goes on or you keep it running.",
    "waste.stops": "It is stopped at {at} unless it goes on or you keep it running.",
    "waste.over": "It does something again, or is kept running.",
    # What is known of a training that stands still.
    "stuck.by_counts": "Rank {rank:#} has called {num:#} collectives of {group}, others {most:#}.",
    "stuck.by_nccl": "By NCCL's own status, rank {rank:#} has launched operation {num:#}, others {most:#}.",
    "stuck.by_busy_device": (
        "The device of rank {rank:#} is {pct}% in use and nothing finishes: a kernel hangs, or waits for other ranks."
    ),
    "stuck.by_idle_device": (
        "The device of rank {rank:#} is {pct}% in use: nothing was launched on it that still runs."
    ),
    "stuck.by_stack": "Rank {rank:#} stands at {line}.",
    # Scaling reports.
    "scaling.one_run": (
        "With one run per size, nobody knows how much runs differ: measure with at least 3 repeats."
    ),
    "scaling.model_off": (
        "The model is {pct}% off the measured step times, so it predicts no other sizes: measure more sizes, with "
        "more steps and nothing else running."
    ),
    "scaling.contradiction": (
        "The model predicts {step_ms} ms, less than the {largest_ms} ms measured on {slots:slot}: treat the latter as "
        "a lower bound, and measure a larger size."
    ),
    "scaling.link_unknown": (
        "How much of a transfer is the work of the hosts and how much is the link is unknown, because the rate of the "
        "measured link is: give it (--measured-bandwidth)."
    ),
    "scaling.too_wide": "The interval is wider than the value itself: measure with more repeats.",
    # What is wrong with a field.
    "field.missing": "is missing",
    "field.missing_entrypoint": "is missing, and without it there is nothing to run",
    "field.missing_functions": "is missing, and your own functions are in it",
    "field.unknown": "does not exist",
    "field.integer": "must be a whole number",
    "field.number": "must be a number",
    "field.text": "must be text",
    "field.boolean": "must be true or false",
    "field.list": "must be a list",
    "field.mapping": "must be a mapping",
    "field.object": "must be a JSON object",
    "field.finite": "must be a finite number",
    "field.at_least": "must be at least {limit}",
    "field.above": "must be above {limit}",
    "field.at_most": "must be at most {limit}",
    "field.below": "must be below {limit}",
    "field.one_of": "must be one of {options}",
    "field.text_too_short": "must have at least {limit:character}",
    "field.text_too_long": "must have at most {limit:character}",
    "field.too_few": "must have at least {limit:entry|entries}",
    "field.too_many": "must have at most {limit:entry|entries}",
    "field.blank": "must not be blank",
    "field.absolute_path": "must be an absolute path (starting with '/')",
    "field.name": "may contain letters, digits, '.', '_' and '-', and must start with a letter or digit",
    "field.name_with_spaces": (
        "may contain letters, digits, spaces, '.', '_' and '-', and must start with a letter or digit"
    ),
    "field.name_with_slashes": (
        "may contain letters, digits, '/', '.', '_' and '-', and must start with a letter or digit"
    ),
    "field.trial": "must name a trial, such as 36.2, or 36 for the only trial of experiment 36",
    "field.sha256": "must be a SHA-256 digest: 64 characters of 0-9 and a-f",
    "field.pattern": "must match {pattern}",
    "field.empty": "is empty",
    "field.twice": "is given twice, and takes one value",
    "field.rank_twice": "has rank {rank:#} twice",
    "field.past": "is in the past",
    "field.moment": "must be between {earliest} and {latest} UTC, not {given}",
    "field.nul": "must not contain the character \\x00 (NUL)",
    "field.fixed": "cannot be changed when an experiment is continued",
    "field.fixed_for_method": "cannot be changed for method {method} when an experiment is continued",
    "field.needed_to_compare": "is needed to compare trials",
    "field.needed_for_schedule": (
        "is needed beside a search.max_length in seconds: the schedule of the learning rate ends there"
    ),
    "field.needed_by": "is needed by {by}",
    "field.no_effect": "has no effect with {other}",
    "field.no_effect_built_in": "has no effect with what is built in",
    "field.no_effect_sampler": "has no effect, because {sampler} does not learn from trials",
    "field.no_such_trial": "names trial {trial}, which does not exist",
    "field.no_such_checkpoint": "names checkpoint {id:#}, which does not exist",
    "field.no_such_experiment": "names experiment {id:#}, which does not exist",
    "field.no_such_secret": "names {names}, which is neither yours nor project {project}'s",
    "field.twice_named": "has an entry twice",
    "field.no_such_bundle": "names a bundle that was not uploaded",
    "field.no_such_rank": "names rank {rank:#}, which is not running",
    "field.beside": "cannot be combined with {other}",
    "warning.plain_secret": (
        "looks like a secret, and everybody who can see the experiment can read it"
    ),
    "warning.async_stage": (
        "updates a stage after each micro-batch, and {optimizer} makes each of these updates as large as a whole "
        "step: expect a curve unlike that of a single process"
    ),
    "warning.async_server": (
        "makes the server update with each gradient as it arrives, and {optimizer} makes each of these updates as "
        "large as a whole step: expect a curve unlike that of a single process"
    ),
    "warning.repeats": "is {trials}, but the space has only {points:different point}: some will be tried again",
    "warning.not_replaced": "contains {variable}, which no shell replaces",
}
