// Made by `npm run api` from the server's OpenAPI description. Do not edit.

export interface paths {
    "/agent/v1/allocations/{allocation_id}/logs/{local_rank}/{stream}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Agent Logs
         * @description Raw log bytes from `offset` on, at most 1 MiB. The reply says where to go on.
         */
        post: operations["agent_logs"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/agent/v1/allocations/{allocation_id}/models": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Agent Model Files
         * @description The files of a version that a job of this node reads.
         */
        post: operations["agent_model_files"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/agent/v1/allocations/{allocation_id}/models/content": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Agent Model Content
         * @description Return the bytes of a part that is ready, with a `Range` from where an earlier answer broke
         *     off.
         */
        get: operations["agent_model_content"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/agent/v1/allocations/{allocation_id}/models/parts": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Agent Model Part
         * @description Have a part of such a file read from the storage of the nodes, unless the server has it.
         */
        post: operations["agent_model_part"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/agent/v1/allocations/{allocation_id}/records": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Agent Records
         * @description Numbered records, in order. What the reply acknowledges is durable. 404: forget it.
         */
        post: operations["agent_records"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/agent/v1/allocations/{allocation_id}/secrets": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Agent Secrets
         * @description Values of the secrets that a job of this node names, asked for just before it starts. Each
         *     answer is in the audit trail.
         */
        post: operations["agent_secrets"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/agent/v1/assignments": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Agent Assignments
         * @description The complete set this node should have. Waits while `index` is still its number.
         */
        get: operations["agent_assignments"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/agent/v1/blobs/{sha256}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Agent Get Blob
         * @description Return the bundle's bytes; the agent checks the digest. 404 for a bundle that nothing on the
         *     agent's node uses.
         */
        get: operations["agent_get_blob"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/agent/v1/deletions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Agent Deletions
         * @description Record the outcome of the file deletions that the node was asked for.
         */
        post: operations["agent_deletions"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/agent/v1/descriptions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Agent Descriptions
         * @description The layers of a model that the node was asked for.
         */
        post: operations["agent_descriptions"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/agent/v1/exports": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Agent Exports
         * @description Take the result of a model export that the node was asked for.
         */
        post: operations["agent_exports"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/agent/v1/exports/{export_id}/pieces/{idx}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Agent Export Piece
         * @description Take a piece of a file, of 1 MiB, the last one shorter. Safe to repeat.
         */
        post: operations["agent_export_piece"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/agent/v1/lease": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Agent Lease
         * @description Heartbeat. 410: register again.
         */
        post: operations["agent_lease"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/agent/v1/leave": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Agent Leave
         * @description A step in which a pilot leaves the cluster. Safe to repeat.
         */
        post: operations["agent_leave"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/agent/v1/outputs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Agent Outputs
         * @description Take a manifest of the files that a trial wrote on the node. Safe to repeat.
         */
        post: operations["agent_outputs"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/agent/v1/preflights": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Agent Preflights
         * @description Record the progress of a stage of a preflight on this node.
         */
        post: operations["agent_preflights"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/agent/v1/register": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Agent Register
         * @description Join with a join token, or start a new session with the node's credential.
         */
        post: operations["agent_register"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/agent/v1/work-folders": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Agent Work Folders
         * @description Take which work folders lie on the node. The reply names those that it may delete.
         */
        post: operations["agent_work_folders"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/audit": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Who did what, newest first */
        get: operations["list_audit"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/auth/login": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Sign in with name and password
         * @description Sign in and set the session cookie. At most 5 attempts a minute for one account from one
         *     address.
         */
        post: operations["login"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/auth/logout": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * End this session
         * @description End the session of the cookie. An API token stays valid: revoke it instead.
         */
        post: operations["logout"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/auth/me": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Who you are and what you may do */
        get: operations["get_me"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/auth/one-time": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Sign in with a one-time token
         * @description Sign in with a link printed by `muster up` or `muster-server sign-in-token`.
         */
        post: operations["one_time_sign_in"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/auth/password": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Change your password
         * @description Change your password.
         *
         *     Ends all your sessions; the one that asked gets a new cookie. Also revokes your API tokens, unless
         *     `revoke_tokens` is false. With a token, the present password is needed: a token cannot give its
         *     user the first one.
         */
        post: operations["change_password"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/auth/setup": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Make the first administrator
         * @description Create the first administrator. Needs the one-time token the server printed at its first
         *     start. Works once.
         */
        post: operations["setup"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/auth/state": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Whether the first set-up is still to do */
        get: operations["get_auth_state"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/blobs/{sha256}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /**
         * Put Blob
         * @description Upload a tar.gz under its SHA-256. Uploading an existing one changes nothing.
         */
        put: operations["put_blob"];
        post?: never;
        delete?: never;
        options?: never;
        /**
         * Head Blob
         * @description Return 200 if the bundle exists, else 404: an existing bundle need not be uploaded.
         */
        head: operations["head_blob"];
        patch?: never;
        trace?: never;
    };
    "/api/v1/checkpoints": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Checkpoints
         * @description List the checkpoints of all trials, with the storage they use.
         */
        get: operations["list_checkpoints"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/checkpoints/{checkpoint_id}:export": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Request Export
         * @description Export the model of a checkpoint of the built-in trainer as one safetensors file, made by an
         *     agent that can read it. An existing or pending export is returned.
         */
        post: operations["request_export"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/checkpoints/{checkpoint_id}:pin": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Pin Checkpoint
         * @description Keep a checkpoint, whatever the policy of its experiment, which then cannot be deleted
         *     either.
         */
        post: operations["pin_checkpoint"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/checkpoints/{checkpoint_id}:unpin": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Unpin Checkpoint
         * @description Leave a checkpoint to the policy of its experiment again.
         */
        post: operations["unpin_checkpoint"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/cluster": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get Cluster
         * @description Return a summary of the cluster.
         */
        get: operations["get_cluster"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/cluster/utilization": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get Cluster Utilization
         * @description Return how many slots of each pool were in use over time, in 96 buckets.
         */
        get: operations["get_cluster_utilization"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/deletions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Deletions
         * @description List the checkpoint files of deleted experiments and their state, newest first.
         */
        get: operations["list_deletions"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/deletions/{deletion_id}:dismiss": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Dismiss Deletion
         * @description Give up on files that no agent can delete; they stay where they are.
         */
        post: operations["dismiss_deletion"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/diagnoses/{diagnosis_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get Diagnosis
         * @description Return the verdict with its shares and advice; while it runs, the probes and their step
         *     times.
         */
        get: operations["get_diagnosis"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/diagnoses/{diagnosis_id}:apply": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Apply Diagnosis
         * @description Launch the training again with one piece of advice; `applied` then reports the outcome.
         */
        post: operations["apply_diagnosis"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/diagnoses/{diagnosis_id}:cancel": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Cancel Diagnosis
         * @description End the probes of a diagnosis. One that has ended stays as it is.
         */
        post: operations["cancel_diagnosis"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/dismissals": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Dismissals
         * @description List what you have dismissed from the overview, latest first.
         */
        get: operations["list_dismissals"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/dismissals/{key}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /**
         * Create Dismissal
         * @description Dismiss an entry of the overview, for you. After 90 days it is forgotten.
         */
        put: operations["create_dismissal"];
        post?: never;
        /**
         * Delete Dismissal
         * @description Show an entry that you had dismissed again.
         */
        delete: operations["delete_dismissal"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/experiments": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Experiments
         * @description List experiments, newest first unless sorted. Several conditions must all hold.
         */
        get: operations["list_experiments"];
        put?: never;
        /**
         * Create Experiment
         * @description Submit an experiment.
         */
        post: operations["create_experiment"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/experiments/{experiment_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get Experiment
         * @description Return one experiment with its document and resolved configuration.
         */
        get: operations["get_experiment"];
        put?: never;
        post?: never;
        /**
         * Delete Experiment
         * @description Remove an experiment that has ended, with everything it recorded and its files.
         */
        delete: operations["delete_experiment"];
        options?: never;
        head?: never;
        /**
         * Update Experiment
         * @description Change name, notes, labels or priority.
         */
        patch: operations["update_experiment"];
        trace?: never;
    };
    "/api/v1/experiments/{experiment_id}/budget": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /**
         * Set Experiment Budget
         * @description Replace its budget; without a limit it has none. A length of time counts from now.
         */
        put: operations["set_experiment_budget"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/experiments/{experiment_id}/checkpoints:clean": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Clean Checkpoints
         * @description Delete the checkpoints that a policy does not keep, once. Checkpoints stay that an unfinished
         *     trial, or a fork, may continue from.
         */
        post: operations["clean_checkpoints"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/experiments/{experiment_id}/checkpoints:plan": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Preview Checkpoint Cleaning
         * @description Return which checkpoints a policy keeps, and why, without deleting any.
         *
         *     Without numbers: the policy of its document; with some, the others are 0.
         */
        get: operations["preview_checkpoint_cleaning"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/experiments/{experiment_id}/children": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Experiment Children
         * @description List the experiments that were forked from it, newest first.
         */
        get: operations["list_experiment_children"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/experiments/{experiment_id}/deletion": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Preview Deletion
         * @description Return what deleting an experiment would free, and whether that is possible now. Nothing is
         *     changed.
         */
        get: operations["preview_deletion"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/experiments/{experiment_id}/events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Experiment Events
         * @description List the events of an experiment and its trials, newest first.
         */
        get: operations["list_experiment_events"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/experiments/{experiment_id}/logs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Experiment Log Lines
         * @description List the lines of all trials of an experiment, or of some, in one order: a page of the newest
         *     ones, oldest first.
         *
         *     As the log of a trial. Of more than 500 streams those that were written to last are read, back
         *     to where the others begin: `left` says where, and that time as `until` goes on.
         */
        get: operations["list_experiment_log_lines"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/experiments/{experiment_id}/logs/histogram": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get Experiment Log Histogram
         * @description Return the histogram over all trials of an experiment or some: of more than 500 streams, the
         *     most recently written ones.
         */
        get: operations["get_experiment_log_histogram"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/experiments/{experiment_id}/model-uses": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Experiment Model Uses
         * @description List the versions of models that an experiment uses, newest first, with what came of them.
         */
        get: operations["list_experiment_model_uses"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/experiments/{experiment_id}/model-versions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Experiment Model Versions
         * @description List the versions of models that an experiment produced, newest first.
         */
        get: operations["list_experiment_model_versions"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/experiments/{experiment_id}/outputs:clean": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Clean Outputs
         * @description Delete the outputs of an experiment that a policy does not keep, once. They stay of a trial that
         *     may still run, has a pinned checkpoint, or has not been collected completely.
         */
        post: operations["clean_outputs"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/experiments/{experiment_id}/outputs:plan": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Preview Outputs Cleaning
         * @description Return which outputs of an experiment a policy keeps, and why, without deleting any.
         *
         *     Without parameters: the policy of its document.
         */
        get: operations["preview_outputs_cleaning"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/experiments/{experiment_id}/scaling-reports": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Scaling Reports
         * @description List the scaling reports of an experiment, newest first.
         */
        get: operations["list_scaling_reports"];
        put?: never;
        /**
         * Create Scaling Report
         * @description Run the experiment briefly at several world sizes, one run after another.
         */
        post: operations["create_scaling_report"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/experiments/{experiment_id}/search": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get Experiment Search
         * @description Return the search: rungs, the trials on them, and what the next trial must reach.
         */
        get: operations["get_experiment_search"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/experiments/{experiment_id}/search/importance": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get Search Importance
         * @description Return the importance of each hyperparameter (PED-ANOVA), from the latest 10,000 trials with
         *     a value.
         */
        get: operations["get_search_importance"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/experiments/{experiment_id}/search/limits": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /**
         * Set Search Limits
         * @description Change how many trials a running search creates in all, and how many run in parallel.
         */
        put: operations["set_search_limits"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/experiments/{experiment_id}/search/points": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Enqueue Trial
         * @description Enqueue a point of your own, tried before those the search draws; adds a trial when all are
         *     planned.
         */
        post: operations["enqueue_trial"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/experiments/{experiment_id}/search/points/{point}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get Search Point
         * @description Return an enqueued point, and the result of the trial that tries it.
         */
        get: operations["get_search_point"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/experiments/{experiment_id}/search/results": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get Search Results
         * @description Return hyperparameters and best value of every trial, in columns.
         */
        get: operations["get_search_results"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/experiments/{experiment_id}/search:ask": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Ask Search
         * @description Return trials to run yourself (`search.runner: external`).
         */
        post: operations["ask_search"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/experiments/{experiment_id}/search:close": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Close Search
         * @description Stop creating trials; existing ones run to their end.
         */
        post: operations["close_search"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/experiments/{experiment_id}/search:tell": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Tell Search
         * @description Report the results of a trial that you run; returns whether it continues.
         */
        post: operations["tell_search"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/experiments/{experiment_id}/series": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get Experiment Series
         * @description Return one metric over the trials of an experiment, for learning curves side by side.
         */
        get: operations["get_experiment_series"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/experiments/{experiment_id}/trials": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Experiment Trials
         * @description List the trials of an experiment that meet all conditions; those without a value come last
         *     when sorted by it.
         */
        get: operations["list_experiment_trials"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/experiments/{experiment_id}:archive": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Archive Experiment
         * @description Hide an experiment that has ended from lists. It can be read as before.
         */
        post: operations["archive_experiment"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/experiments/{experiment_id}:close": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Close Experiment
         * @description Close an unmanaged experiment whose client will not end it. Its process, if there is one, is
         *     not stopped, and may open it again.
         */
        post: operations["close_experiment"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/experiments/{experiment_id}:continue": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Continue Experiment
         * @description Continue an experiment that has ended from its newest checkpoints, longer if requested.
         */
        post: operations["continue_experiment"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/experiments/{experiment_id}:fork": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Fork Experiment
         * @description Create a new experiment from its document and code, and from a checkpoint if requested.
         */
        post: operations["fork_experiment"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/experiments/{experiment_id}:kill": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Kill Experiment
         * @description Kill all processes of an experiment at once, without a last checkpoint.
         */
        post: operations["kill_experiment"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/experiments/{experiment_id}:pause": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Pause Experiment
         * @description Pause an experiment: its trials save a checkpoint and release their slots until it is
         *     resumed.
         */
        post: operations["pause_experiment"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/experiments/{experiment_id}:resume": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Resume Experiment
         * @description Resume an experiment: its trials are queued again and continue from their checkpoints.
         */
        post: operations["resume_experiment"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/experiments/{experiment_id}:stop": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Stop Experiment
         * @description Stop all trials of an experiment, with time for a last checkpoint.
         */
        post: operations["stop_experiment"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/experiments/{experiment_id}:unarchive": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Unarchive Experiment
         * @description Show an archived experiment in lists again.
         */
        post: operations["unarchive_experiment"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/experiments:bulk": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Run Bulk
         * @description Run a previewed operation. 409 if the selection has changed since the preview.
         */
        post: operations["run_bulk"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/experiments:bulk-preview": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Preview Bulk
         * @description Return the exact experiments that an operation would affect, and the digest needed to run it.
         */
        post: operations["preview_bulk"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/experiments:columns": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Experiment Columns
         * @description List the columns for which the newest 100 experiments have values.
         */
        get: operations["list_experiment_columns"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/experiments:count": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Count Experiments
         * @description Return the number of experiments that match the filters.
         */
        get: operations["count_experiments"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/experiments:groups": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Group Experiments
         * @description Group the experiments that match the filters by the value of a column, with the mean, minimum
         *     and maximum of others.
         */
        get: operations["group_experiments"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/experiments:preview": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Preview Experiment
         * @description Check a document and show what it would do. Nothing is stored.
         */
        post: operations["preview_experiment"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/experiments:schema": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get Document Schema
         * @description Return the JSON schema of the experiment document: keys, values, defaults and what they mean.
         *     Editors complete and explain documents with it.
         */
        get: operations["get_document_schema"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/exports/{export_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get Export
         * @description Return an export and its progress.
         */
        get: operations["get_export"];
        put?: never;
        post?: never;
        /**
         * Delete Export
         * @description Delete the file of an export, or cancel it while it is pending. The checkpoint and
         *     the outputs stay.
         */
        delete: operations["delete_export"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/exports/{export_id}/file": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Download Export
         * @description Download the file. 409 while it is not complete, and if the export failed.
         */
        get: operations["download_export"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/exports/{export_id}/preview": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get Outputs Preview
         * @description Return what was fetched to be shown: as plain text whatever its name says, or as an image. 409
         *     while it is not there.
         */
        get: operations["get_outputs_preview"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/join-tokens": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The join tokens that still work */
        get: operations["list_join_tokens"];
        put?: never;
        /**
         * Make a token with which agents join
         * @description Create a join token, which an agent exchanges for a credential of its own at its first start.
         *     Made with an API token, it ends with that one, and agents that joined with it stay.
         */
        post: operations["create_join_token"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/join-tokens/{token_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /**
         * Revoke a join token
         * @description Revoke a join token. Agents that have joined with it stay: remove their nodes to end those.
         */
        delete: operations["revoke_join_token"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/live/tickets": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * A ticket that opens the live channel once
         * @description Create a ticket for callers with an API token: browsers cannot send headers with a WebSocket,
         *     and a token does not belong in an address. Works once, within a minute.
         */
        post: operations["create_live_ticket"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/model-blobs/{sha256}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get Model Blob
         * @description Return how much of a file has arrived. 404 if nothing has.
         */
        get: operations["get_model_blob"];
        /**
         * Put Model Blob
         * @description Upload a piece of a file, of at most 8 MiB and a multiple of 1 MiB except the last one. After
         *     the last one its SHA-256 is verified.
         */
        put: operations["put_model_blob"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/models": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Models
         * @description List models by name, with their aliases.
         */
        get: operations["list_models"];
        put?: never;
        /**
         * Create Model
         * @description Create a model without versions. Registering a version creates its model by itself.
         */
        post: operations["create_model"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/models/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get Model
         * @description Return a model with its aliases.
         */
        get: operations["get_model"];
        put?: never;
        post?: never;
        /**
         * Delete Model
         * @description Delete a model with all its versions. 409 while an alias names one of them, unless forced.
         *     Checkpoints and outputs stay where they are, under the policy of their experiment again.
         */
        delete: operations["delete_model"];
        options?: never;
        head?: never;
        /**
         * Update Model
         * @description Change the name, description or tags of a model.
         */
        patch: operations["update_model"];
        trace?: never;
    };
    "/api/v1/models/{name}/aliases/{alias}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get Model Alias
         * @description Return the version that an alias names now.
         */
        get: operations["get_model_alias"];
        /**
         * Set Model Alias
         * @description Let an alias name a version. The move is kept with who made it, when and why.
         */
        put: operations["set_model_alias"];
        post?: never;
        /**
         * Delete Model Alias
         * @description Remove an alias. Its history stays.
         */
        delete: operations["delete_model_alias"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/models/{name}/history": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Model Alias Moves
         * @description List the moves of a model's aliases, newest first.
         */
        get: operations["list_model_alias_moves"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/models/{name}/promotions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Model Promotions
         * @description List the promotion rules of a model, newest first, with what became of them.
         */
        get: operations["list_model_promotions"];
        put?: never;
        /**
         * Create Model Promotion
         * @description Let the best checkpoint of an experiment become an alias when the experiment has ended. The
         *     alias only ever moves to a better value.
         */
        post: operations["create_model_promotion"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/models/{name}/promotions/{promotion_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /**
         * Delete Model Promotion
         * @description Delete a promotion rule. An alias that it has moved stays where it is.
         */
        delete: operations["delete_model_promotion"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/models/{name}/versions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Model Versions
         * @description List the versions of a model, newest first.
         */
        get: operations["list_model_versions"];
        put?: never;
        /**
         * Register Model Version
         * @description Register a version from a checkpoint, from outputs of a trial, or from uploaded files. Files
         *     of the same origin once more return the version that there is.
         */
        post: operations["register_model_version"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/models/{name}/versions/{number}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get Model Version
         * @description Return a version with its files, lineage and model card.
         */
        get: operations["get_model_version"];
        put?: never;
        post?: never;
        /**
         * Delete Model Version
         * @description Delete a version. 409 while an alias names it, unless forced.
         */
        delete: operations["delete_model_version"];
        options?: never;
        head?: never;
        /**
         * Update Model Version
         * @description Change notes and tags of a version; nothing else of it ever changes.
         */
        patch: operations["update_model_version"];
        trace?: never;
    };
    "/api/v1/models/{name}/versions/{number}/exports": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Model Version Exports
         * @description List the jobs that export a version, newest first: for each format its state, files, and how
         *     its answers compare with those of the checkpoint.
         */
        get: operations["list_model_version_exports"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/models/{name}/versions/{number}/files/content": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Download Model File
         * @description Download a file, or the part of it that was fetched as an export. A `Range` from a byte to the
         *     end continues a download that was cut off.
         */
        get: operations["download_model_file"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/models/{name}/versions/{number}/files:fetch": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Fetch Model File
         * @description Have a part of a file read from the storage of the nodes, unless the server has it. Repeat it
         *     until it is ready.
         */
        post: operations["fetch_model_file"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/models/{name}/versions/{number}/lineage": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get Model Lineage
         * @description Return what a version comes from, and what was done with it: exports, evaluations,
         *     predictions, deployments, and trainings that read it.
         */
        get: operations["get_model_lineage"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/models/{name}/versions/{number}/uses": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Model Version Uses
         * @description List the experiments that use a version, newest first: jobs that read, export, evaluate and
         *     serve it, with what came of them.
         */
        get: operations["list_model_version_uses"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/models:leaderboards": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Model Leaderboards
         * @description List versions by how good they are, for each data set. Only evaluations by the same samples and
         *     the same code of the metrics are ranked together.
         */
        get: operations["list_model_leaderboards"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/nodes": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Nodes
         * @description List all nodes with their slots, by name.
         */
        get: operations["list_nodes"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/nodes/{node_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get Node
         * @description Return a node, by its id or its name.
         */
        get: operations["get_node"];
        put?: never;
        post?: never;
        /**
         * Remove Node
         * @description Remove a node from the cluster: one that is LOST or has been silent for a minute, or a
         *     cordoned one with nothing running.
         */
        delete: operations["remove_node"];
        options?: never;
        head?: never;
        /**
         * Update Node
         * @description Open, cordon or drain a node.
         */
        patch: operations["update_node"];
        trace?: never;
    };
    "/api/v1/nodes/{node_id}/allocations": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Node Allocations
         * @description List past and present allocations on a node, newest first.
         */
        get: operations["list_node_allocations"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/nodes/{node_id}/events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Node Events
         * @description List the events of a node, newest first.
         */
        get: operations["list_node_events"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/nodes/{node_id}/system-metrics": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get Node System Metrics
         * @description Return a node's utilization, in samples of 15 s or more: processors, memory, disks, each
         *     network interface and GPU, with the ranks that run there.
         */
        get: operations["get_node_system_metrics"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/nodes/{node_id}:release": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Release Node
         * @description Release a node from quarantine. Whether it is open, cordoned or draining stays as it is.
         */
        post: operations["release_node"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/notifications/inbox": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Inbox
         * @description List your inbox, newest first. It keeps the latest 1,000 entries of 90 days.
         */
        get: operations["list_inbox"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/notifications/inbox/count": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Count Inbox
         * @description Count the entries of your inbox that you have not read.
         */
        get: operations["count_inbox"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/notifications/inbox/read": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Read Inbox
         * @description Mark entries of your inbox as read, or all of them.
         */
        post: operations["read_inbox"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/notifications/options": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get Options
         * @description Return what rules and targets can use on this server.
         */
        get: operations["get_notification_options"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/notifications/rules": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Rules
         * @description List your notification rules, or those of a project.
         */
        get: operations["list_notification_rules"];
        put?: never;
        /**
         * Create Rule
         * @description Create a rule of your own or, as an administrator, of a project.
         */
        post: operations["create_notification_rule"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/notifications/rules/{rule_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /**
         * Delete Rule
         * @description Delete a rule. What it has already caused is still sent.
         */
        delete: operations["delete_notification_rule"];
        options?: never;
        head?: never;
        /**
         * Update Rule
         * @description Change a rule.
         */
        patch: operations["update_notification_rule"];
        trace?: never;
    };
    "/api/v1/notifications/targets": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Targets
         * @description List your notification targets, or those of a project. Addresses and secrets are in no
         *     answer.
         */
        get: operations["list_notification_targets"];
        put?: never;
        /**
         * Create Target
         * @description Create a target of your own or, as an administrator, of a project.
         */
        post: operations["create_notification_target"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/notifications/targets/{target_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /**
         * Delete Target
         * @description Delete a target and its history. What waits for it is not sent.
         */
        delete: operations["delete_notification_target"];
        options?: never;
        head?: never;
        /**
         * Update Target
         * @description Change a target. Disabling it drops what waits for it.
         */
        patch: operations["update_notification_target"];
        trace?: never;
    };
    "/api/v1/notifications/targets/{target_id}/deliveries": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Deliveries
         * @description List what was sent to a target, newest first. It keeps the latest 1,000 messages of 30
         *     days.
         */
        get: operations["list_notification_deliveries"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/notifications/targets/{target_id}/test": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Test Target
         * @description Send a test notification, after what already waits. The outcome is in the history.
         */
        post: operations["test_notification_target"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/panels": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Panels
         * @description List the panels of an experiment and of its project, or those of a project. One page holds
         *     them all.
         */
        get: operations["list_panels"];
        put?: never;
        /**
         * Create Panel
         * @description Add a panel to the charts of an experiment, or of every experiment of a project.
         */
        post: operations["create_panel"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/panels/{panel_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /**
         * Delete Panel
         * @description Delete a panel.
         */
        delete: operations["delete_panel"];
        options?: never;
        head?: never;
        /**
         * Update Panel
         * @description Change what a panel shows, or its place.
         */
        patch: operations["update_panel"];
        trace?: never;
    };
    "/api/v1/plans": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Create Plan
         * @description Estimate the memory, bytes and time that the training of a document needs. A node lists the
         *     layers of the model for that, which may run your own code; poll while `is_pending` is true.
         */
        post: operations["create_plan"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/pools": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Pools
         * @description List pools with their price and what is in them, by name.
         */
        get: operations["list_pools"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/pools/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /**
         * Set Pool
         * @description Set what a slot of the pool costs per hour, and how well its nodes must isolate jobs, for what
         *     is placed from now on.
         */
        put: operations["set_pool"];
        post?: never;
        /**
         * Delete Pool
         * @description Delete the settings of a pool that has no nodes.
         */
        delete: operations["delete_pool"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/pools/{name}/pilots": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Pilots
         * @description List the pilots of a pool, the newest first, those that have ended included.
         */
        get: operations["list_pilots"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/pools/{name}/provider": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get Pool Provider
         * @description Return what submits pilots for a pool, and how it fares.
         */
        get: operations["get_pool_provider"];
        /**
         * Set Pool Provider
         * @description Have pilots submitted to a batch system for what waits in the pool.
         */
        put: operations["set_pool_provider"];
        post?: never;
        /**
         * Delete Pool Provider
         * @description Submit no more pilots. Those that wait are canceled, those that run leave once they are idle.
         */
        delete: operations["delete_pool_provider"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/preflights": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Preflights
         * @description List preflights, newest first: those on demand, and those before gangs.
         */
        get: operations["list_preflights"];
        put?: never;
        /**
         * Create Preflight
         * @description Test nodes: their disks, devices, connections to each other, and an all-reduce of every pair.
         *     It takes some seconds; poll it until `state` is not `running`.
         */
        post: operations["create_preflight"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/preflights/{preflight_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get Preflight */
        get: operations["get_preflight"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/projects": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Projects
         * @description List projects with what they have spent, by name.
         */
        get: operations["list_projects"];
        put?: never;
        /**
         * Create Project
         * @description Create a project. Submitting to a name that does not exist creates one as well.
         */
        post: operations["create_project"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/projects/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get Project
         * @description Return one project with its quotas, its budget and what it has spent.
         */
        get: operations["get_project"];
        put?: never;
        post?: never;
        /**
         * Delete Project
         * @description Remove a project that has no experiments.
         */
        delete: operations["delete_project"];
        options?: never;
        head?: never;
        /**
         * Update Project
         * @description Change weight, quotas or budget, or reset the count of spending.
         */
        patch: operations["update_project"];
        trace?: never;
    };
    "/api/v1/projects/{name}/events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Project Events
         * @description List the events of the project itself, newest first: changes and alerts of its budget.
         */
        get: operations["list_project_events"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/projects/{project}/secrets": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Project Secrets
         * @description List the secrets of a project by name. Their values are in no answer.
         */
        get: operations["list_project_secrets"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/projects/{project}/secrets/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /**
         * Set Project Secret
         * @description Create a secret of a project, or replace its value. Every experiment of the project can use
         *     it.
         */
        put: operations["set_project_secret"];
        post?: never;
        /**
         * Delete Project Secret
         * @description Delete a secret of a project. What names it cannot start any more.
         */
        delete: operations["delete_project_secret"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/queue": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Queue
         * @description List the trials that wait for slots, in the scheduler's order: the reason, the position and,
         *     where known, the estimated start of each.
         */
        get: operations["list_queue"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/queue:move": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Move In Queue
         * @description Move a waiting trial, or all of an experiment, among equals: those of the same pool, slot
         *     type, priority and project. Its owner and administrators may.
         */
        post: operations["move_in_queue"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/retention": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get Retention
         * @description Return what is deleted by age, and what that would free now. Nothing is changed.
         *
         *     The ages are settings of the server (`MUSTER_METRIC_RETENTION_DAYS`, `MUSTER_LOG_RETENTION_DAYS`);
         *     with a parameter the answer is about that age instead.
         */
        get: operations["get_retention"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/scaling-reports/{report_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get Scaling Report
         * @description Return one report: what was measured, the cost model fitted to it, and predictions.
         */
        get: operations["get_scaling_report"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/scaling-reports/{report_id}/export": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Export Scaling Report
         * @description Export the report as Markdown or CSV.
         */
        get: operations["export_scaling_report"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/scaling-reports/{report_id}:cancel": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Cancel Scaling Report
         * @description Cancel a report and its current run; measurements stay.
         */
        post: operations["cancel_scaling_report"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/secrets": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Secrets
         * @description List your own secrets by name. Their values are in no answer.
         */
        get: operations["list_secrets"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/secrets/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /**
         * Set Secret
         * @description Create a secret of your own, or replace its value. Jobs that run keep the former value.
         */
        put: operations["set_secret"];
        post?: never;
        /**
         * Delete Secret
         * @description Delete a secret of your own. What names it cannot start any more.
         */
        delete: operations["delete_secret"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/series": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Curves
         * @description Return many metrics of many trials in one response, along any x axis.
         */
        get: operations["list_curves"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/tokens": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Your API tokens */
        get: operations["list_tokens"];
        put?: never;
        /**
         * Make an API token
         * @description Create an API token. The secret is in this response and nowhere else. With a token you
         *     can create one that ranks no higher and lasts no longer; it ends when that one ends or is revoked.
         */
        post: operations["create_token"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/tokens/{token_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /**
         * Revoke an API token
         * @description Revoke your own token, or anybody's as an administrator. It stops working at once, and so
         *     does all that was made with it. A token revokes none that ranks above it.
         */
        delete: operations["revoke_token"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/trials/{trial_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get Trial
         * @description Return one trial with its attempts, newest first.
         */
        get: operations["get_trial"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/trials/{trial_id}/checkpoints": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Trial Checkpoints
         * @description List checkpoints, newest first.
         */
        get: operations["list_trial_checkpoints"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/trials/{trial_id}/diagnoses": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Trial Diagnoses
         * @description List the diagnoses of a trial, newest first.
         */
        get: operations["list_trial_diagnoses"];
        put?: never;
        /**
         * Diagnose Trial
         * @description Find out what limits the speed of a trial. For a trial with the built-in trainer, short
         *     probes are launched as an experiment of the caller; poll the diagnosis until `state` is not
         *     `running`. A custom script is judged at once by its measurements.
         */
        post: operations["diagnose_trial"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/trials/{trial_id}/evaluations": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Trial Evaluations
         * @description List the evaluations of its model by name: scores of each class, confusion matrix.
         */
        get: operations["list_trial_evaluations"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/trials/{trial_id}/events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Trial Events
         * @description List the events of a trial, newest first.
         */
        get: operations["list_trial_events"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/trials/{trial_id}/exports": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Trial Exports
         * @description List the exports of a trial's checkpoints that have not expired, newest first.
         */
        get: operations["list_trial_exports"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/trials/{trial_id}/groups": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Trial Groups
         * @description List process groups.
         */
        get: operations["list_trial_groups"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/trials/{trial_id}/logs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Trial Log Lines
         * @description List the lines of all matching streams in one order, oldest first.
         *
         *     Without a cursor the page is the end (`from=tail`), the beginning (`from=head`), or begins at a
         *     place: `line`, `time` or `fraction`. A search stops after a second; the answer says how much it
         *     has looked at, and its cursor goes on.
         */
        get: operations["list_trial_log_lines"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/trials/{trial_id}/logs/download": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Download Trial Log
         * @description Download the raw bytes of one stream; of the latest attempt that has it unless one is given.
         */
        get: operations["download_trial_log"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/trials/{trial_id}/logs/histogram": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get Trial Log Histogram
         * @description Return how many lines of each level were received when, in at most 60 time buckets: between
         *     `since` and `until`, or from the first line to the last one.
         */
        get: operations["get_trial_log_histogram"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/trials/{trial_id}/logs/streams": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Trial Log Streams
         * @description List every stream of every worker and launcher, by attempt and rank.
         */
        get: operations["list_trial_log_streams"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/trials/{trial_id}/logs/values": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Preview Trial Log Values
         * @description Return what a pattern of `metrics.from_log` finds in the log of the newest attempt, or of one that
         *     is given: how many values, their names, and the first of them. Nothing is stored. It searches for
         *     a second at most; `left_bytes` says how much it has not reached.
         */
        get: operations["preview_trial_log_values"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/trials/{trial_id}/media": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Media
         * @description List the media of a trial by step, without their content.
         */
        get: operations["list_media"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/trials/{trial_id}/media/series": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Media Series
         * @description List the names that a trial has logged media under, with kind, ranks and steps, and how many
         *     items were left out. Items of an earlier attempt after the step at which a later one resumed are
         *     not shown.
         */
        get: operations["list_media_series"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/trials/{trial_id}/media/{media_id}/content": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get Media Content
         * @description Return the content of an item. 422 if it must be fetched first, 409 while it is on its way.
         */
        get: operations["get_media_content"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/trials/{trial_id}/media/{media_id}:fetch": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Fetch Media Content
         * @description Have the content of an item sent by a node that has it, unless the server holds it. Ask again
         *     until it is ready; it stays for an hour.
         */
        post: operations["fetch_media_content"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/trials/{trial_id}/metrics": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Trial Metrics
         * @description List every series of a trial with its summary, without points.
         */
        get: operations["list_trial_metrics"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/trials/{trial_id}/outputs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Outputs
         * @description List the files that a trial wrote, those of all its nodes as one folder, as they were
         *     collected last.
         */
        get: operations["list_outputs"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/trials/{trial_id}/outputs/summary": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get Outputs Summary
         * @description Return number and size of the files that a trial wrote, and whether something is missing.
         */
        get: operations["get_outputs_summary"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/trials/{trial_id}/outputs:export": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Request Outputs Export
         * @description Have outputs made into files to download, by an agent that has their storage. Existing and
         *     pending exports of the same files are returned.
         */
        post: operations["request_outputs_export"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/trials/{trial_id}/outputs:preview": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Request Outputs Preview
         * @description Have the beginning of a file fetched, to be shown: the first 1 MiB of text, or an image of at
         *     most 8 MiB.
         */
        post: operations["request_outputs_preview"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/trials/{trial_id}/performance": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get Trial Performance
         * @description Return where the time of its newest steps went, rank by rank: parts of the step, who waits
         *     for whom, communication of each process group, stages of a pipeline.
         */
        get: operations["get_trial_performance"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/trials/{trial_id}/pipeline-step": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get Trial Pipeline Step
         * @description Return the timeline of a pipeline's workers in one step: the newest step that all of them
         *     have recorded.
         */
        get: operations["get_trial_pipeline_step"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/trials/{trial_id}/plan": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get Trial Plan
         * @description Return the estimated memory, bytes and time per step of a trial beside its measurements. Poll
         *     while `is_pending` is true.
         */
        get: operations["get_trial_plan"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/trials/{trial_id}/profiles": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Trial Profiles
         * @description List the kept profiler windows, newest first: the last five, and 64 MiB of traces.
         */
        get: operations["list_trial_profiles"];
        put?: never;
        /**
         * Profile Trial
         * @description Trace chosen ranks of a running trial with torch's profiler for some steps. The training goes
         *     on, more slowly meanwhile. Poll get_trial_profile until it is complete.
         */
        post: operations["profile_trial"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/trials/{trial_id}/profiles/{no}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get Trial Profile
         * @description Return the state of one window, rank by rank.
         */
        get: operations["get_trial_profile"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/trials/{trial_id}/profiles/{no}/ranks/{rank}/trace": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Download Trial Trace
         * @description Download the trace of one rank: Chrome's trace events in JSON, a gzip. Perfetto and
         *     chrome://tracing open it.
         */
        get: operations["download_trial_trace"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/trials/{trial_id}/progress": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get Trial Progress
         * @description Return how far each rank is, and which of them delays the others when nothing moves.
         */
        get: operations["get_trial_progress"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/trials/{trial_id}/reproduction": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get Trial Reproduction
         * @description Return what it takes to run a trial again: the origin of each setting, the commit of its code,
         *     and the Python, torch, driver and packages of its newest attempt.
         */
        get: operations["get_trial_reproduction"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/trials/{trial_id}/series": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get Trial Series
         * @description Return curves in a window of steps: exact points if there are few, else anchored buckets.
         */
        get: operations["get_trial_series"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/trials/{trial_id}/series.csv": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Export Trial Series
         * @description Download the visible points, one line each: name, rank, attempt_no, step, time_ms, value.
         *
         *     The file of a trial whose metrics retention has downsampled is called so: it has what is kept.
         */
        get: operations["export_trial_series"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/trials/{trial_id}/series.jsonl": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Export Trial Series Lines
         * @description Download the visible points, one JSON object per line, with the fields of the CSV file.
         */
        get: operations["export_trial_series_lines"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/trials/{trial_id}/series.parquet": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Export Trial Series Parquet
         * @description Download the visible points as a Parquet file, with the columns of the CSV file.
         */
        get: operations["export_trial_series_parquet"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/trials/{trial_id}/stacks": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get Trial Stacks
         * @description Return the requested stacks of the ranks, in order of rank.
         */
        get: operations["get_trial_stacks"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/trials/{trial_id}/system-metrics": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get Trial System Metrics
         * @description Return how busy the nodes of a trial were during its attempts: processors, memory, disks, each
         *     network interface and GPU.
         */
        get: operations["get_trial_system_metrics"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/trials/{trial_id}/tracked-runs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Tracked Runs
         * @description List the runs that its script has started with MLflow: params and tags.
         */
        get: operations["list_tracked_runs"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/trials/{trial_id}/workers": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Trial Workers
         * @description List worker processes in order of rank.
         */
        get: operations["list_trial_workers"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/trials/{trial_id}:kill": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Kill Trial
         * @description Kill the processes of a trial at once, without a last checkpoint.
         */
        post: operations["kill_trial"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/trials/{trial_id}:promote": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Promote Trial
         * @description Promote a trial that waits at its rung, whatever its rank.
         */
        post: operations["promote_trial"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/trials/{trial_id}:stacks": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Ask Trial Stacks
         * @description Request the stacks of every rank: the calls of all its threads. The training goes on
         *     meanwhile. The responses arrive one by one; read them with get_trial_stacks.
         */
        post: operations["ask_trial_stacks"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/trials/{trial_id}:stop": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Stop Trial
         * @description Stop a trial, with time for a last checkpoint.
         */
        post: operations["stop_trial"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/users": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** All users */
        get: operations["list_users"];
        put?: never;
        /** Add a user */
        post: operations["create_user"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/users/{user_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        /**
         * Change a user's role
         * @description Change a user and end the user's sessions. The last administrator keeps the role.
         */
        patch: operations["update_user"];
        trace?: never;
    };
    "/api/v1/views": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Saved Views
         * @description List your saved views, and those that are shared with a project.
         */
        get: operations["list_saved_views"];
        put?: never;
        /**
         * Create Saved View
         * @description Save a page's columns, order and filters under a name.
         */
        post: operations["create_saved_view"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/views/{view_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /**
         * Delete Saved View
         * @description Delete a saved view.
         */
        delete: operations["delete_saved_view"];
        options?: never;
        head?: never;
        /**
         * Update Saved View
         * @description Change the name of a view, its content, whom it is shared with, or whether your page opens
         *     with it.
         */
        patch: operations["update_saved_view"];
        trace?: never;
    };
    "/docs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** This description as a page */
        get: operations["docs"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/healthz": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Whether the process is up
         * @description Return 200 as long as the process can answer; says nothing about the database.
         */
        get: operations["healthz"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/metrics": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * This process and the cluster, for Prometheus
         * @description Return every metric of docs/reference/metrics.md. Cluster figures are at most 5 s old.
         */
        get: operations["get_prometheus_metrics"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/openapi.json": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** This description */
        get: operations["openapi"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/readyz": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Whether requests can be served, and which part is down
         * @description Return 503 unless the database answers, has this version's tables and room to write. The
         *     other parts are reported, not required.
         */
        get: operations["readyz"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /**
         * AckState
         * @description Part of an allocation's spool that the server holds durably.
         */
        AckState: {
            /** Acked Seq */
            acked_seq: number;
            /** Allocation Id */
            allocation_id: string;
            /** Logs */
            logs: components["schemas"]["LogOffset"][];
        };
        /**
         * Activations
         * @description Bytes between a layer's forward and its backward, parameters and buffers left out.
         */
        Activations: {
            /** Once */
            once: number;
            /** Per Sample */
            per_sample: number;
            /** Split Per Sample */
            split_per_sample: number;
            /** Work Per Sample */
            work_per_sample: number;
        };
        /**
         * AdoptedCheckpoint
         * @description Files that the script saved as a checkpoint. They lie in a folder of their own beside the
         *     outputs, laid out like those, and stay when the script replaces or deletes them.
         */
        AdoptedCheckpoint: {
            /** Attempt No */
            attempt_no: number;
            /** Files */
            files: string;
            /** Folder */
            folder: string;
            /** Name */
            name: string;
            /** No */
            no: number;
            /** Node Rank */
            node_rank: number;
            /**
             * Problem
             * @default
             */
            problem: string;
            /** Saved Ms */
            saved_ms: number;
            /** Step */
            step: number | null;
        };
        /** AdviceOut */
        AdviceOut: {
            /** Applied */
            applied: components["schemas"]["AppliedOut"][];
            gain: components["schemas"]["EstimateOut"] | null;
            /** Is Bound */
            is_bound: boolean;
            /** Kind */
            kind: string;
            /** Overrides */
            overrides: string[];
            /** Text */
            text: string;
            /** Values */
            values: {
                [key: string]: string | number;
            };
        };
        /** AliasIn */
        AliasIn: {
            /**
             * Reason
             * @default
             */
            reason: string;
            /** Version */
            version: number;
        };
        /**
         * AllocationSpec
         * @description Everything a shim needs to run its part of an attempt.
         */
        AllocationSpec: {
            /** Allocation Id */
            allocation_id: string;
            /** Attempt Id */
            attempt_id: number;
            /** Attempt No */
            attempt_no: number;
            /** Checkpoint Dir */
            checkpoint_dir: string;
            /**
             * Checkpoint Url
             * @default
             */
            checkpoint_url: string;
            /**
             * Cluster Id
             * @default
             */
            cluster_id: string;
            code: components["schemas"]["CodeSpec"];
            /** Config */
            config: {
                [key: string]: unknown;
            };
            /** Entrypoint */
            entrypoint: string[];
            /** Environment */
            environment: {
                [key: string]: string;
            };
            /** Experiment Id */
            experiment_id: number;
            /** Experiment Name */
            experiment_name: string;
            /** Hparams */
            hparams: {
                [key: string]: unknown;
            };
            /**
             * Launcher
             * @enum {string}
             */
            launcher: "torchrun" | "direct" | "plain" | "shell";
            /** Log Limit Bytes */
            log_limit_bytes: number;
            /** Models */
            models?: {
                [key: string]: components["schemas"]["ModelSpec"];
            };
            /** Node Rank */
            node_rank: number;
            /** Num Nodes */
            num_nodes: number;
            /**
             * On Disconnect
             * @enum {string}
             */
            on_disconnect: "continue" | "stop";
            outputs?: components["schemas"]["OutputsSpec"] | null;
            /**
             * Project Id
             * @default 0
             */
            project_id: number;
            /** Python */
            python: string | null;
            /** Rank Offset */
            rank_offset: number;
            /** Resume From */
            resume_from: string | null;
            /** Resume Step */
            resume_step: number;
            /** Secrets */
            secrets?: string[];
            /** Seed */
            seed: number;
            /**
             * Slot Type
             * @enum {string}
             */
            slot_type: "cpu" | "cuda";
            /** Slots */
            slots: number[];
            /** Stop Grace S */
            stop_grace_s: number;
            /** Trial Id */
            trial_id: number;
            /** Trial No */
            trial_no: number;
            /** Weights From */
            weights_from?: string | null;
            /** Work From */
            work_from?: components["schemas"]["WorkSource"][];
            /** World Size */
            world_size: number;
        };
        /**
         * AppliedOut
         * @description An experiment that was launched from a recommendation.
         */
        AppliedOut: {
            /** Achieved */
            achieved: number | null;
            /** Experiment Id */
            experiment_id: number;
            /** Num Steps */
            num_steps: number;
            /** State */
            state: string;
            /** Trial Id */
            trial_id: number | null;
        };
        /** ApplyIn */
        ApplyIn: {
            /** Advice */
            advice: string;
        };
        /** AppriseIn */
        AppriseIn: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            kind: "apprise";
            /** Url */
            url: string;
        };
        /** AskIn */
        AskIn: {
            /**
             * By
             * @default
             */
            by: string;
            /**
             * Count
             * @default 1
             */
            count: number;
        };
        /** AskOut */
        AskOut: {
            /** Is Over */
            is_over: boolean;
            /** Reason */
            reason: string;
            /** Trials */
            trials: components["schemas"]["AskedTrial"][];
        };
        /**
         * AskedTrial
         * @description A trial to run outside Muster.
         */
        AskedTrial: {
            /** Hparams */
            hparams: {
                [key: string]: unknown;
            };
            /** Marks */
            marks: number[];
            /** Max Units */
            max_units: number | null;
            /** No */
            no: number;
            /** Seed */
            seed: number;
            /** Trial Id */
            trial_id: number;
            /** Unit */
            unit: string | null;
            /** Units */
            units: number;
        };
        /** Assignment */
        Assignment: {
            /**
             * Desired
             * @enum {string}
             */
            desired: "prepare" | "start" | "stop" | "kill";
            profile?: components["schemas"]["ProfileOrder"] | null;
            rendezvous: components["schemas"]["Rendezvous"] | null;
            shards?: components["schemas"]["ShardOrders"] | null;
            spec: components["schemas"]["AllocationSpec"];
            /**
             * Stacks No
             * @default 0
             */
            stacks_no: number;
            /** Stop Grace S */
            stop_grace_s?: number | null;
            /**
             * Stop Kind
             * @default
             */
            stop_kind: string;
            /**
             * Stop Reason
             * @default
             */
            stop_reason: string;
        };
        /** AssignmentsReply */
        AssignmentsReply: {
            /** Assignments */
            assignments: components["schemas"]["Assignment"][];
            /** Deletions */
            deletions?: components["schemas"]["Deletion"][];
            /** Descriptions */
            descriptions?: components["schemas"]["Description"][];
            /** Exports */
            exports?: components["schemas"]["Export"][];
            /** Index */
            index: number;
            /** Preflights */
            preflights?: components["schemas"]["Preflight"][];
            /** Tunnels */
            tunnels?: components["schemas"]["Tunnel"][];
        };
        /** AttemptOut */
        AttemptOut: {
            /**
             * Created At
             * Format: date-time
             */
            created_at: string;
            /** Ended At */
            ended_at: string | null;
            /** No */
            no: number;
            /** Nodes */
            nodes: string[];
            /** Num Nodes */
            num_nodes: number;
            /** Reason */
            reason: string;
            /** Rendezvous Host */
            rendezvous_host: string | null;
            /** Rendezvous Port */
            rendezvous_port: number | null;
            /** Resume Step */
            resume_step: number;
            /** Root Log Tail */
            root_log_tail: string[];
            /** Root Rank */
            root_rank: number | null;
            /** Started At */
            started_at: string | null;
            /** State */
            state: string;
            /** Termination */
            termination: string | null;
            /** World Size */
            world_size: number;
        };
        /** AuditOut */
        AuditOut: {
            /** Action */
            action: string;
            /** Actor */
            actor: string;
            /**
             * At
             * Format: date-time
             */
            at: string;
            /** Detail */
            detail: {
                [key: string]: unknown;
            };
            /** Id */
            id: number;
            /** Remote Addr */
            remote_addr: string;
            /** Subject */
            subject: string;
        };
        /**
         * AuthState
         * @description Public settings that the sign-in page needs.
         */
        AuthState: {
            /** Setup Command */
            setup_command: string | null;
            /** Setup Required */
            setup_required: boolean;
            /** Sign In Command */
            sign_in_command: string | null;
            /** Version */
            version: string;
        };
        /**
         * BlameOut
         * @description A rank that holds up the others.
         */
        BlameOut: {
            /** Group */
            group: string;
            /**
             * Kind
             * @enum {string}
             */
            kind: "stopped" | "unheard" | "absent" | "mismatch" | "cycle" | "data" | "busy";
            /** Rank */
            rank: number;
            /** Reason */
            reason: string;
        };
        /** BlobOut */
        BlobOut: {
            /** Sha256 */
            sha256: string;
            /** Size Bytes */
            size_bytes: number;
        };
        /**
         * BottleneckOut
         * @description Bottleneck of a step.
         */
        BottleneckOut: {
            /**
             * Kind
             * @enum {string}
             */
            kind: "straggler" | "communication" | "bubble" | "data" | "optimizer" | "checkpoint" | "other" | "computation";
            /** Ms */
            ms: number;
            /** Num Rows */
            num_rows: number;
            /** Reason */
            reason: string;
            /** Reason Parts */
            reason_parts: components["schemas"]["PartOut"][];
            /** Share */
            share: number;
            /** Step Ms */
            step_ms: number;
        };
        /**
         * Budget
         * @description What an experiment may cost. When one of the limits is reached, its trials save a checkpoint
         *     and end, and the experiment is CANCELED with the reason; more can be given with `muster
         *     continue`. Slots cost from their reservation until they are free again.
         */
        Budget: {
            /**
             * Alert At
             * @description Shares of each limit at which an event tells of it, once.
             * @default [
             *       0.5,
             *       0.9
             *     ]
             */
            alert_at: number[];
            /**
             * Cost
             * @description Money: slot-hours times the price of the pool (`muster pool list`).
             */
            cost?: number | null;
            /**
             * Deadline
             * @description A length of time since the submission (`6h`, `90min`, `1d12h`) or a moment with its time
             *     zone (`2026-03-01T18:00Z`).
             */
            deadline?: string | null;
            /**
             * Slot Hours
             * @description Slots × hours of all its trials together.
             */
            slot_hours?: number | null;
        };
        /**
         * BudgetLimitOut
         * @description One limit of a budget and how much of it is gone.
         */
        BudgetLimitOut: {
            /** Alerts Given */
            alerts_given: number[];
            /** Exhausted */
            exhausted: boolean;
            /** Exhausted At */
            exhausted_at: string | null;
            /** Limit */
            limit: number;
            /** Limit At */
            limit_at: string | null;
            /**
             * Measure
             * @enum {string}
             */
            measure: "slot_hours" | "cost" | "deadline";
            /** Share */
            share: number | ("NaN" | "Infinity" | "-Infinity");
            /** Spent */
            spent: number;
            /** Unit */
            unit: string;
        };
        /** BudgetOut */
        BudgetOut: {
            /** Alert At */
            alert_at: number[];
            /** Exhausted Parts */
            exhausted_parts: components["schemas"]["PartOut"][];
            /** Exhausted Reason */
            exhausted_reason: string;
            /** Limits */
            limits: components["schemas"]["BudgetLimitOut"][];
        };
        /**
         * BulkIn
         * @description An operation on several experiments, selected by a filter or listed by ID.
         */
        BulkIn: {
            /**
             * Action
             * @enum {string}
             */
            action: "pause" | "resume" | "stop" | "kill" | "continue" | "archive" | "unarchive" | "delete" | "label";
            /** Digest */
            digest?: string | null;
            filter?: components["schemas"]["FilterIn"] | null;
            /** Ids */
            ids?: number[] | null;
            /**
             * Keep Files
             * @default false
             */
            keep_files: boolean;
            /**
             * Remove Labels
             * @default []
             */
            remove_labels: string[];
            /**
             * Set Labels
             * @default {}
             */
            set_labels: {
                [key: string]: string;
            };
        };
        /** BulkItem */
        BulkItem: {
            /** Code */
            code: string | null;
            /** Id */
            id: number;
            /** Message */
            message: string;
            /** Name */
            name: string;
            /**
             * Outcome
             * @enum {string}
             */
            outcome: "changes" | "unchanged" | "refused";
            /** State */
            state: string;
        };
        /** BulkOut */
        BulkOut: {
            /**
             * Action
             * @enum {string}
             */
            action: "pause" | "resume" | "stop" | "kill" | "continue" | "archive" | "unarchive" | "delete" | "label";
            /** Digest */
            digest: string;
            /** Items */
            items: components["schemas"]["BulkItem"][];
            /** Num Changed */
            num_changed: number;
            /** Num Refused */
            num_refused: number;
            /** Num Unchanged */
            num_unchanged: number;
        };
        /**
         * BulkPreviewOut
         * @description Exactly the experiments that the operation will affect.
         */
        BulkPreviewOut: {
            /**
             * Action
             * @enum {string}
             */
            action: "pause" | "resume" | "stop" | "kill" | "continue" | "archive" | "unarchive" | "delete" | "label";
            /** Digest */
            digest: string;
            freed: components["schemas"]["FreedOut"] | null;
            /** Items */
            items: components["schemas"]["BulkItem"][];
            /** Num */
            num: number;
            /** Num Changes */
            num_changes: number;
            /** Num Refused */
            num_refused: number;
            unsaved: components["schemas"]["UnsavedOut"] | null;
        };
        /** CheckpointListItem */
        CheckpointListItem: {
            /** Attempt No */
            attempt_no: number;
            /**
             * Created At
             * Format: date-time
             */
            created_at: string;
            /** Experiment Id */
            experiment_id: number;
            /** Experiment Name */
            experiment_name: string;
            /** Id */
            id: number;
            /** Is Latest */
            is_latest: boolean;
            /** Kind */
            kind: string;
            /** Metric */
            metric: number | ("NaN" | "Infinity" | "-Infinity") | null;
            /** Metric Name */
            metric_name: string | null;
            /** Node Name */
            node_name: string;
            /** Num Files */
            num_files: number;
            /** Path */
            path: string;
            /** Pinned At */
            pinned_at: string | null;
            /** Pinned By */
            pinned_by: string;
            /** Project */
            project: string;
            /** Size Bytes */
            size_bytes: number;
            /** State */
            state: string;
            /** Step */
            step: number;
            /** Trial Id */
            trial_id: number;
            /** Trial No */
            trial_no: number;
        };
        /** CheckpointListOut */
        CheckpointListOut: {
            /** Items */
            items: components["schemas"]["CheckpointListItem"][];
            /** Next */
            next: string | null;
            /** Totals */
            totals: components["schemas"]["CheckpointTotal"][];
        };
        /** CheckpointOut */
        CheckpointOut: {
            /** Attempt No */
            attempt_no: number;
            /**
             * Created At
             * Format: date-time
             */
            created_at: string;
            /** Epoch */
            epoch: number | null;
            /** Id */
            id: number;
            /** Is Best */
            is_best: boolean;
            /** Is Latest */
            is_latest: boolean;
            /** Kind */
            kind: string;
            /** Metrics */
            metrics: {
                [key: string]: number | ("NaN" | "Infinity" | "-Infinity");
            };
            /** Node Name */
            node_name: string;
            /** Num Files */
            num_files: number;
            /** Path */
            path: string;
            /** Pinned At */
            pinned_at: string | null;
            /** Pinned By */
            pinned_by: string;
            /** Size Bytes */
            size_bytes: number;
            /** State */
            state: string;
            /** Step */
            step: number;
        };
        /**
         * CheckpointRecord
         * @description A checkpoint that is complete on storage. Comes after the metrics up to its step.
         */
        CheckpointRecord: {
            /** Epoch */
            epoch?: number | null;
            /** Files */
            files: {
                [key: string]: string;
            };
            /** Metrics */
            metrics?: {
                [key: string]: number | string;
            };
            /** Path */
            path: string;
            /** Size Bytes */
            size_bytes: number;
            /** Step */
            step: number;
            /**
             * Type
             * @default checkpoint
             * @constant
             */
            type: "checkpoint";
        };
        /** CheckpointTotal */
        CheckpointTotal: {
            /** Num Checkpoints */
            num_checkpoints: number;
            /** Size Bytes */
            size_bytes: number;
            /** State */
            state: string;
        };
        /** CheckpointVerdict */
        CheckpointVerdict: {
            /** Id */
            id: number;
            /** Is Kept */
            is_kept: boolean;
            /** Reason */
            reason: string;
            /** Size Bytes */
            size_bytes: number;
            /** Step */
            step: number;
            /** Trial Id */
            trial_id: number;
            /** Trial No */
            trial_no: number;
            /** Value */
            value: number | ("NaN" | "Infinity" | "-Infinity") | null;
        };
        /**
         * ChildOut
         * @description An experiment that was forked from this one.
         */
        ChildOut: {
            /**
             * Created At
             * Format: date-time
             */
            created_at: string;
            /** Id */
            id: number;
            /** Name */
            name: string;
            /** Owner */
            owner: string | null;
            /** State */
            state: string;
            /** Step */
            step: number | null;
        };
        /**
         * ClassScoreOut
         * @description Scores of one class. Shares are 0 to 1, and null without a sample to judge by.
         */
        ClassScoreOut: {
            /** F1 */
            f1: number | null;
            /** Name */
            name: string;
            /** Num Predicted */
            num_predicted: number;
            /** Num Samples */
            num_samples: number;
            /** Precision */
            precision: number | null;
            /** Recall */
            recall: number | null;
        };
        /** CleaningOut */
        CleaningOut: {
            /** Experiment Id */
            experiment_id: number;
            /** Num Deleted */
            num_deleted: number;
        };
        /**
         * CleaningPlanOut
         * @description What a policy keeps of an experiment's checkpoints.
         */
        CleaningPlanOut: {
            /** Checkpoints */
            checkpoints: components["schemas"]["CheckpointVerdict"][];
            /** Experiment Id */
            experiment_id: number;
            /** Freed Bytes */
            freed_bytes: number;
            /** Metric */
            metric: string | null;
            /** Num Dropped */
            num_dropped: number;
            /** Num Kept */
            num_kept: number;
            /** Policy */
            policy: string;
        };
        /**
         * ClockReading
         * @description Offset between a node's clocks and the server's (its database's), measured with heartbeats.
         */
        ClockReading: {
            /** Error Ms */
            error_ms: number;
            /** Offset Ms */
            offset_ms: number;
            /** Skew S */
            skew_s: number;
        };
        /** ClusterOut */
        ClusterOut: {
            /** Comm Overhead Ratio */
            comm_overhead_ratio: number | null;
            /** Impossible */
            impossible: components["schemas"]["ImpossibleOut"][];
            /**
             * Now
             * Format: date-time
             */
            now: string;
            /** Num Experiments Running */
            num_experiments_running: number;
            /** Num Impossible */
            num_impossible: number;
            /** Num Nodes */
            num_nodes: number;
            /** Num Nodes Online */
            num_nodes_online: number;
            /** Num Slots */
            num_slots: number;
            /** Num Slots Used */
            num_slots_used: number;
            /** Num Stuck */
            num_stuck: number;
            /** Num Trials Comm */
            num_trials_comm: number;
            /** Num Trials Queued */
            num_trials_queued: number;
            /** Num Trials Running */
            num_trials_running: number;
            /** Num Trials Throughput */
            num_trials_throughput: number;
            /** Num Values Comm */
            num_values_comm: number;
            /** Oldest Queued At */
            oldest_queued_at: string | null;
            /** Samples Per S */
            samples_per_s: number | null;
            /** Server Version */
            server_version: string;
            /** Stuck */
            stuck: components["schemas"]["StuckOut"][];
        };
        /**
         * CodeSpec
         * @description Source of a trial's code.
         */
        CodeSpec: {
            /**
             * Kind
             * @enum {string}
             */
            kind: "bundle" | "installed" | "none";
            /**
             * Path
             * @default
             */
            path: string;
            /**
             * Sha256
             * @default
             */
            sha256: string;
        };
        /**
         * CodeVersionIn
         * @description Commit of the git repository that a code folder belongs to, and how the folder differs from
         *     it.
         */
        CodeVersionIn: {
            /**
             * Branch
             * @default
             */
            branch: string;
            /** Commit */
            commit: string;
            /**
             * Diff
             * @default
             */
            diff: string;
            /**
             * Is Diff Cut
             * @default false
             */
            is_diff_cut: boolean;
            /** Is Dirty */
            is_dirty: boolean;
            /**
             * Untracked
             * @default []
             */
            untracked: string[];
        };
        /**
         * CodeVersionOut
         * @description Commit of the git repository that a code folder belongs to, and how the folder differed from
         *     it when it was sent.
         */
        CodeVersionOut: {
            /** Branch */
            branch: string;
            /** Commit */
            commit: string;
            /** Diff */
            diff: string;
            /** Is Diff Cut */
            is_diff_cut: boolean;
            /** Is Dirty */
            is_dirty: boolean;
            /** Untracked */
            untracked: string[];
        };
        /**
         * ColumnStatisticsOut
         * @description Statistics of a column over the experiments of a group that have a finite number in it; null
         *     without any.
         */
        ColumnStatisticsOut: {
            /** Max */
            max: number | null;
            /** Mean */
            mean: number | null;
            /** Min */
            min: number | null;
            /** Num Values */
            num_values: number;
        };
        /**
         * CommittedPart
         * @description The part that counts of a shard.
         */
        CommittedPart: {
            /** Num Errors */
            num_errors: number;
            /** Num Rows */
            num_rows: number;
            /** Sha256 */
            sha256: string;
            /** Size Bytes */
            size_bytes: number;
            /** Token */
            token: number;
        };
        /**
         * ContinueIn
         * @description How to continue an experiment that has ended. Without any field it continues unchanged.
         */
        ContinueIn: {
            length?: components["schemas"]["LengthIn"] | null;
            /**
             * Overrides
             * @default []
             */
            overrides: string[];
            /** Trials */
            trials?: number[] | null;
        };
        /** CostModelOut */
        CostModelOut: {
            bandwidth_bytes_per_s: components["schemas"]["ScalingEstimateOut"] | null;
            compute_fixed_ms: components["schemas"]["ScalingEstimateOut"];
            compute_per_sample_ms: components["schemas"]["ScalingEstimateOut"];
            contention: components["schemas"]["ScalingEstimateOut"];
            /** Hidden Share */
            hidden_share: number;
            latency_us: components["schemas"]["ScalingEstimateOut"] | null;
            /** Num Transfers */
            num_transfers: number;
            other_ms: components["schemas"]["ScalingEstimateOut"];
            /** Reasons */
            reasons: string[];
            /** Step Error */
            step_error: number | null;
            /** Transfer Error */
            transfer_error: number | null;
        };
        /**
         * CulpritOut
         * @description A rank that the others wait for in at least a tenth of their step.
         */
        CulpritOut: {
            /** Excess Ms */
            excess_ms: number;
            /** Group */
            group: string;
            /** Held Up Ms */
            held_up_ms: number;
            /** Num Buckets */
            num_buckets: number;
            /** Part */
            part: string | null;
            /** Rank */
            rank: number;
            /** Reason */
            reason: string;
            /** Share */
            share: number;
        };
        /**
         * Curve
         * @description One series of one of several trials, with what lies along its x axis.
         */
        Curve: {
            /** Experiment Id */
            experiment_id: number;
            series: components["schemas"]["Series"];
            /** Start Ms */
            start_ms: number | null;
            /** Trial Id */
            trial_id: number;
            /** Trial No */
            trial_no: number;
            /** X */
            x: (number | ("NaN" | "Infinity" | "-Infinity") | null)[] | null;
        };
        /** CurvesReply */
        CurvesReply: {
            /** Items */
            items: components["schemas"]["Curve"][];
            /** Max Points */
            max_points: number;
            /** Missing */
            missing: number[];
            /** Num Matching */
            num_matching: number;
        };
        /**
         * Deletion
         * @description Files of a deleted experiment. Asked of one node that has the storage, until it says how it
         *     went; doing it twice is harmless.
         */
        Deletion: {
            /** Cluster Id */
            cluster_id: string;
            /** Id */
            id: number;
            /** Path */
            path: string;
            /** Storage Id */
            storage_id: string;
            /**
             * Storage Url
             * @default
             */
            storage_url: string;
        };
        /** DeletionOut */
        DeletionOut: {
            /** Complete */
            complete: boolean;
            /** Experiment Id */
            experiment_id: number;
            /** File Deletions */
            file_deletions: number[];
        };
        /**
         * DeletionPlanOut
         * @description What deleting an experiment would remove, and whether it can be deleted now.
         */
        DeletionPlanOut: {
            /** Code */
            code: string | null;
            /** Experiment Id */
            experiment_id: number;
            freed: components["schemas"]["FreedOut"];
            /** Possible */
            possible: boolean;
            /** Reason */
            reason: string;
        };
        /** DeletionResult */
        DeletionResult: {
            /**
             * Freed Bytes
             * @default 0
             */
            freed_bytes: number;
            /** Id */
            id: number;
            /**
             * Message
             * @default
             */
            message: string;
            /**
             * Outcome
             * @enum {string}
             */
            outcome: "done" | "refused" | "failed";
        };
        /** DeletionsReply */
        DeletionsReply: {
            /** Num Taken */
            num_taken: number;
        };
        /**
         * DeletionsRequest
         * @description `POST /agent/v1/deletions`.
         */
        DeletionsRequest: {
            /** Node Id */
            node_id: string;
            /** Results */
            results: components["schemas"]["DeletionResult"][];
            /** Session Epoch */
            session_epoch: number;
        };
        /** DeliveryOut */
        DeliveryOut: {
            /**
             * Created At
             * Format: date-time
             */
            created_at: string;
            /** Ended At */
            ended_at: string | null;
            /** Error */
            error: string;
            /** Id */
            id: number;
            /** Last Tried At */
            last_tried_at: string | null;
            /** Message Id */
            message_id: string;
            /** Num Notifications */
            num_notifications: number;
            /** Num Tries */
            num_tries: number;
            /**
             * State
             * @enum {string}
             */
            state: "sending" | "sent" | "failed";
            /** Title */
            title: string;
        };
        /**
         * Description
         * @description A model whose layers a node should list, in a short-lived process that holds no slot.
         *     Requested from one node until it reports the result; repeating it is harmless.
         */
        Description: {
            code: components["schemas"]["CodeSpec"];
            /** Environment */
            environment: {
                [key: string]: string;
            };
            /** Id */
            id: number;
            /** Python */
            python: string | null;
            /** Settings */
            settings: {
                [key: string]: unknown;
            };
        };
        /** DescriptionReply */
        DescriptionReply: {
            /** Taken */
            taken: boolean;
        };
        /**
         * DescriptionRequest
         * @description `POST /agent/v1/descriptions`.
         */
        DescriptionRequest: {
            /** Node Id */
            node_id: string;
            result: components["schemas"]["DescriptionResult"];
            /** Session Epoch */
            session_epoch: number;
        };
        /** DescriptionResult */
        DescriptionResult: {
            /** Id */
            id: number;
            /**
             * Message
             * @default
             */
            message: string;
            /**
             * Outcome
             * @enum {string}
             */
            outcome: "done" | "refused" | "failed";
            table?: components["schemas"]["LayerTable"] | null;
        };
        /**
         * DiagnoseIn
         * @description How thorough the diagnosis is. Fields left out take the server's settings.
         */
        DiagnoseIn: {
            /** Repeats */
            repeats?: number | null;
            /** Steps */
            steps?: number | null;
        };
        /** DiagnosisOut */
        DiagnosisOut: {
            /** Advice */
            advice: components["schemas"]["AdviceOut"][];
            /** Baseline Samples Per S */
            baseline_samples_per_s: number | null;
            /**
             * Created At
             * Format: date-time
             */
            created_at: string;
            /** Created By */
            created_by: string;
            /** Culprit Part */
            culprit_part: string | null;
            /** Culprit Rank */
            culprit_rank: number | null;
            efficiency: components["schemas"]["EstimateOut"] | null;
            /** Ended At */
            ended_at: string | null;
            /** Experiment Id */
            experiment_id: number;
            /** Id */
            id: number;
            /** Left Out */
            left_out: components["schemas"]["LeftOutOut"][];
            /** Measured */
            measured: components["schemas"]["MeasuredOut"][];
            /**
             * Method
             * @enum {string}
             */
            method: "probes" | "observed";
            /** Notes */
            notes: string[];
            /** Probes */
            probes: components["schemas"]["ProbeOut"][];
            /** Probes Id */
            probes_id: number | null;
            /** Reason */
            reason: string;
            /** Shares */
            shares: {
                [key: string]: components["schemas"]["EstimateOut"];
            };
            /** Spread */
            spread: number | null;
            /**
             * State
             * @enum {string}
             */
            state: "running" | "complete" | "canceled";
            /** Steps */
            steps: number | null;
            /** Trial Id */
            trial_id: number;
            /** Verdict */
            verdict: ("compute" | "communication" | "data" | "straggler" | "inconclusive") | null;
        };
        /** DismissalOut */
        DismissalOut: {
            /**
             * Dismissed At
             * Format: date-time
             */
            dismissed_at: string;
            /** Key */
            key: string;
        };
        /** DismissalsOut */
        DismissalsOut: {
            /** Items */
            items: components["schemas"]["DismissalOut"][];
        };
        /** EmailIn */
        EmailIn: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            kind: "email";
            server?: components["schemas"]["MailServerIn"] | null;
            /** To */
            to: string[];
        };
        /**
         * EnqueueIn
         * @description A point for a search to try before those it draws itself.
         */
        EnqueueIn: {
            /** Hparams */
            hparams: {
                [key: string]: unknown;
            };
            /** Point */
            point?: string | null;
        };
        /**
         * EstimateOut
         * @description A value with its two-sided 95 % interval (Student's t).
         */
        EstimateOut: {
            /** High */
            high: number;
            /** Low */
            low: number;
            /** Num */
            num: number;
            /** Value */
            value: number;
        };
        /** EvaluationOut */
        EvaluationOut: {
            /**
             * At
             * Format: date-time
             */
            at: string;
            /** Attempt No */
            attempt_no: number;
            /** Classes */
            classes: components["schemas"]["ClassScoreOut"][];
            /** Confusion */
            confusion: number[][];
            /** Metrics */
            metrics: {
                [key: string]: number | ("NaN" | "Infinity" | "-Infinity");
            };
            /** Name */
            name: string;
            /** Step */
            step: number;
        };
        /**
         * EvaluationRecord
         * @description Quality of a model on samples it was not trained with. A later evaluation of the same name
         *     replaces it.
         */
        EvaluationRecord: {
            /** Classes */
            classes?: string[];
            /** Confusion */
            confusion?: number[][];
            /** Metrics */
            metrics?: {
                [key: string]: number | string;
            };
            /** Name */
            name: string;
            /** Step */
            step: number;
            /**
             * Type
             * @default evaluation
             * @constant
             */
            type: "evaluation";
        };
        /** EventOut */
        EventOut: {
            /**
             * At
             * Format: date-time
             */
            at: string;
            /** Attempt No */
            attempt_no: number | null;
            /** Data */
            data: {
                [key: string]: unknown;
            };
            /** Experiment Id */
            experiment_id: number | null;
            /** Id */
            id: number;
            /**
             * Level
             * @enum {string}
             */
            level: "info" | "warning" | "error";
            /** Message */
            message: string;
            /** Node Id */
            node_id: string | null;
            /** Trial Id */
            trial_id: number | null;
            /** Type */
            type: string;
        };
        /**
         * ExitInfo
         * @description How an allocation ended. `cause` is for programs, `message` is one sentence for people.
         */
        ExitInfo: {
            /** At Error Ms */
            at_error_ms?: number | null;
            /**
             * Cause
             * @enum {string}
             */
            cause: "success" | "user_error" | "killed_by_signal" | "out_of_memory" | "disk_full" | "limit_exceeded" | "stopped" | "killed" | "launcher_failed" | "node_rebooted" | "shim_lost" | "unkillable" | "start_timeout" | "port_in_use" | "invalid_hparams" | "not_on_node" | "cannot_run";
            /** Exit Code */
            exit_code?: number | null;
            first_failure?: components["schemas"]["WorkerExit"] | null;
            /** Log Tail */
            log_tail?: string[];
            /** Message */
            message: string;
            /** Signal */
            signal?: number | null;
            /** Unix At Boot Ms */
            unix_at_boot_ms?: number | null;
            /** Workers */
            workers?: components["schemas"]["WorkerExit"][];
        };
        /** ExperimentColumnOut */
        ExperimentColumnOut: {
            /** Column */
            column: string;
            /** Num Experiments */
            num_experiments: number;
        };
        /** ExperimentColumnsOut */
        ExperimentColumnsOut: {
            /** Items */
            items: components["schemas"]["ExperimentColumnOut"][];
            /** Num Searched */
            num_searched: number;
        };
        /** ExperimentCountOut */
        ExperimentCountOut: {
            /** Num Experiments */
            num_experiments: number;
        };
        /** ExperimentDetail */
        ExperimentDetail: {
            /** After */
            after: components["schemas"]["OrderedExperimentOut"][];
            /** Archived At */
            archived_at: string | null;
            /** Before */
            before: components["schemas"]["OrderedExperimentOut"][];
            /** Best Metric */
            best_metric: number | ("NaN" | "Infinity" | "-Infinity") | null;
            /** Best Trial Id */
            best_trial_id: number | null;
            /** Blob Sha256 */
            blob_sha256: string | null;
            budget: components["schemas"]["BudgetOut"] | null;
            /** Config */
            config: {
                [key: string]: unknown;
            };
            /**
             * Created At
             * Format: date-time
             */
            created_at: string;
            /**
             * Desired
             * @enum {string}
             */
            desired: "run" | "pause" | "stop" | "kill";
            /** Document */
            document: string;
            /** Ended At */
            ended_at: string | null;
            headline: components["schemas"]["HeadlineOut"] | null;
            /** Id */
            id: number;
            /** Labels */
            labels: {
                [key: string]: string;
            };
            /** Left Out */
            left_out: string[];
            /** Metric Goal */
            metric_goal: string | null;
            /** Metric Name */
            metric_name: string | null;
            /** Name */
            name: string;
            /** Non Finite Metric */
            non_finite_metric: string | null;
            /** Notes */
            notes: string;
            /** Notices */
            notices: components["schemas"]["NoticeOut"][];
            /** Num Before */
            num_before: number;
            /** Num Children */
            num_children: number;
            /** Num Continued */
            num_continued: number;
            /** Num Slots Held */
            num_slots_held: number;
            /** Num Trials */
            num_trials: number;
            /** Num Trials By State */
            num_trials_by_state: {
                [key: string]: number;
            };
            /** Num Trials Planned */
            num_trials_planned: number | null;
            /** Only Trial Id */
            only_trial_id: number | null;
            /** Overrides */
            overrides: string[];
            /** Owner */
            owner: string | null;
            parent: components["schemas"]["ParentOut"] | null;
            /** Pool */
            pool: string;
            /** Priority */
            priority: number;
            /** Progress */
            progress: number | null;
            /** Project */
            project: string;
            /** Purpose */
            purpose: ("diagnose" | "scaling") | null;
            /** Reason */
            reason: string;
            /** Searcher */
            searcher: string;
            /** Slot Type */
            slot_type: string;
            /** Slots Per Trial */
            slots_per_trial: number;
            spending: components["schemas"]["SpendingOut"];
            /** Started At */
            started_at: string | null;
            /** State */
            state: string;
            /** Termination */
            termination: string | null;
            /** Unmanaged */
            unmanaged: string | null;
            unsaved: components["schemas"]["UnsavedOut"] | null;
            /**
             * Values
             * @default {}
             */
            values: {
                [key: string]: number | string | boolean | null;
            };
        };
        /** ExperimentGroupOut */
        ExperimentGroupOut: {
            /** Columns */
            columns: {
                [key: string]: components["schemas"]["ColumnStatisticsOut"];
            };
            /** Num By State */
            num_by_state: {
                [key: string]: number;
            };
            /** Num Experiments */
            num_experiments: number;
            /** Value */
            value: number | string | null;
        };
        /** ExperimentGroupsOut */
        ExperimentGroupsOut: {
            /** By */
            by: string;
            /** Items */
            items: components["schemas"]["ExperimentGroupOut"][];
            /** Num Groups */
            num_groups: number;
        };
        /** ExperimentIn */
        ExperimentIn: {
            /** Blob Sha256 */
            blob_sha256?: string | null;
            code_version?: components["schemas"]["CodeVersionIn"] | null;
            /** Document */
            document: string;
            /** Left Out */
            left_out?: string[] | null;
            /**
             * Overrides
             * @default []
             */
            overrides: string[];
        };
        /** ExperimentOut */
        ExperimentOut: {
            /** Archived At */
            archived_at: string | null;
            /** Best Metric */
            best_metric: number | ("NaN" | "Infinity" | "-Infinity") | null;
            /** Best Trial Id */
            best_trial_id: number | null;
            /**
             * Created At
             * Format: date-time
             */
            created_at: string;
            /**
             * Desired
             * @enum {string}
             */
            desired: "run" | "pause" | "stop" | "kill";
            /** Ended At */
            ended_at: string | null;
            headline: components["schemas"]["HeadlineOut"] | null;
            /** Id */
            id: number;
            /** Labels */
            labels: {
                [key: string]: string;
            };
            /** Metric Goal */
            metric_goal: string | null;
            /** Metric Name */
            metric_name: string | null;
            /** Name */
            name: string;
            /** Non Finite Metric */
            non_finite_metric: string | null;
            /** Notes */
            notes: string;
            /** Num Slots Held */
            num_slots_held: number;
            /** Num Trials */
            num_trials: number;
            /** Num Trials By State */
            num_trials_by_state: {
                [key: string]: number;
            };
            /** Num Trials Planned */
            num_trials_planned: number | null;
            /** Only Trial Id */
            only_trial_id: number | null;
            /** Owner */
            owner: string | null;
            /** Pool */
            pool: string;
            /** Priority */
            priority: number;
            /** Progress */
            progress: number | null;
            /** Project */
            project: string;
            /** Purpose */
            purpose: ("diagnose" | "scaling") | null;
            /** Reason */
            reason: string;
            /** Searcher */
            searcher: string;
            /** Slot Type */
            slot_type: string;
            /** Slots Per Trial */
            slots_per_trial: number;
            /** Started At */
            started_at: string | null;
            /** State */
            state: string;
            /** Termination */
            termination: string | null;
            /** Unmanaged */
            unmanaged: string | null;
            /**
             * Values
             * @default {}
             */
            values: {
                [key: string]: number | string | boolean | null;
            };
        };
        /** ExperimentPatch */
        ExperimentPatch: {
            /** Labels */
            labels?: {
                [key: string]: string;
            } | null;
            /** Name */
            name?: string | null;
            /** Notes */
            notes?: string | null;
            /** Priority */
            priority?: number | null;
        };
        /**
         * ExperimentSeriesReply
         * @description One metric over the trials of an experiment.
         */
        ExperimentSeriesReply: {
            /** Experiment Id */
            experiment_id: number;
            /** Items */
            items: components["schemas"]["TrialSeries"][];
            /** Name */
            name: string;
            /** Num Trials */
            num_trials: number;
        };
        /**
         * ExperimentState
         * @enum {string}
         */
        ExperimentState: "QUEUED" | "RUNNING" | "PAUSED" | "STOPPING" | "COMPLETED" | "CANCELED" | "FAILED";
        /**
         * Export
         * @description A model to be made into one file and sent in pieces. Requested from one node that can read
         *     its checkpoint, until it reports the result; repeating it is harmless, for the pieces are the
         *     same.
         */
        Export: {
            /** Cluster Id */
            cluster_id: string;
            /** Files */
            files?: components["schemas"]["OutputFile"][];
            /**
             * First Bytes
             * @default 0
             */
            first_bytes: number;
            /** Id */
            id: number;
            /** Max Bytes */
            max_bytes: number;
            /** Path */
            path: string;
            /** Storage Id */
            storage_id: string;
            /**
             * Storage Url
             * @default
             */
            storage_url: string;
        };
        /**
         * ExportComparisonOut
         * @description How the answers of an export, loaded again, compare with those of the checkpoint.
         */
        ExportComparisonOut: {
            /** Agreement */
            agreement: number | ("NaN" | "Infinity" | "-Infinity") | null;
            /** Atol */
            atol: number | ("NaN" | "Infinity" | "-Infinity");
            /** Compared By */
            compared_by: string;
            /** Max Abs */
            max_abs: number | ("NaN" | "Infinity" | "-Infinity") | null;
            /** Max Rel */
            max_rel: number | ("NaN" | "Infinity" | "-Infinity") | null;
            /** Rtol */
            rtol: number | ("NaN" | "Infinity" | "-Infinity");
            /**
             * Verdict
             * @enum {string}
             */
            verdict: "equal" | "within" | "beyond" | "not_compared";
        };
        /** ExportFileOut */
        ExportFileOut: {
            /** Path */
            path: string;
            /** Sha256 */
            sha256: string;
            /** Size Bytes */
            size_bytes: number;
            /** Warning */
            warning: string;
        };
        /**
         * ExportOut
         * @description The model of a checkpoint as one safetensors file, or outputs of a trial as they are or as a
         *     tar archive, and the progress of the export.
         */
        ExportOut: {
            /** Checkpoint Id */
            checkpoint_id: number | null;
            /** Ended At */
            ended_at: string | null;
            /** Experiment Id */
            experiment_id: number;
            /**
             * Expires At
             * Format: date-time
             */
            expires_at: string;
            /** File Name */
            file_name: string;
            /** Id */
            id: number;
            /** Message */
            message: string;
            /** Num Files */
            num_files: number;
            /**
             * Requested At
             * Format: date-time
             */
            requested_at: string;
            /** Requested By */
            requested_by: string;
            /** Sha256 */
            sha256: string;
            /** Size Bytes */
            size_bytes: number | null;
            /**
             * State
             * @enum {string}
             */
            state: "pending" | "done" | "failed";
            /** Step */
            step: number;
            /** Trial Id */
            trial_id: number;
            /** Trial No */
            trial_no: number;
            /** Waits For */
            waits_for: string;
        };
        /** ExportReply */
        ExportReply: {
            /** Taken */
            taken: boolean;
        };
        /**
         * ExportRequest
         * @description `POST /agent/v1/exports`, after all its pieces: `POST /agent/v1/exports/{id}/pieces/{idx}`, of
         *     EXPORT_PIECE_BYTES each but the last.
         */
        ExportRequest: {
            /** Node Id */
            node_id: string;
            result: components["schemas"]["ExportResult"];
            /** Session Epoch */
            session_epoch: number;
        };
        /** ExportResult */
        ExportResult: {
            /** Id */
            id: number;
            /**
             * Message
             * @default
             */
            message: string;
            /**
             * Outcome
             * @enum {string}
             */
            outcome: "done" | "failed";
            /**
             * Sha256
             * @default
             */
            sha256: string;
            /**
             * Size Bytes
             * @default 0
             */
            size_bytes: number;
        };
        /** FieldError */
        FieldError: {
            /** Hint */
            hint?: string | null;
            /** Message */
            message: string;
            /**
             * Parts
             * @default []
             */
            parts: components["schemas"]["PartOut"][];
            /** Path */
            path: string;
        };
        /**
         * FileDeletionOut
         * @description Deletion of the files of a checkpoint or of a deleted experiment, and its progress.
         */
        FileDeletionOut: {
            /** Checkpoint Id */
            checkpoint_id: number | null;
            /** Ended At */
            ended_at: string | null;
            /** Experiment Id */
            experiment_id: number;
            /** Experiment Name */
            experiment_name: string;
            /** Freed Bytes */
            freed_bytes: number | null;
            /** Id */
            id: number;
            /** Message */
            message: string;
            /** Node Name */
            node_name: string;
            /** Path */
            path: string;
            /**
             * Requested At
             * Format: date-time
             */
            requested_at: string;
            /** Requested By */
            requested_by: string;
            /** Size Bytes */
            size_bytes: number;
            /**
             * State
             * @enum {string}
             */
            state: "pending" | "done" | "refused" | "dismissed";
            /** Storage Id */
            storage_id: string;
            /** Storage Url */
            storage_url: string;
            /** Waits For */
            waits_for: string;
        };
        /**
         * FilterIn
         * @description Selection of experiments that meet all conditions. The names are the query parameters of the
         *     list of experiments.
         */
        FilterIn: {
            /**
             * Archived
             * @default exclude
             * @enum {string}
             */
            archived: "exclude" | "include" | "only";
            /**
             * Label
             * @default []
             */
            label: string[];
            /** Owner */
            owner?: string | null;
            /** Project */
            project?: string | null;
            /** Q */
            q?: string | null;
            /**
             * State
             * @default []
             */
            state: components["schemas"]["ExperimentState"][];
            /**
             * Where
             * @default []
             */
            where: string[];
        };
        /**
         * ForkFromIn
         * @description Checkpoint to start from. Without `checkpoint`, `trial` and `experiment`, it is one of the
         *     forked experiment.
         */
        ForkFromIn: {
            /** Checkpoint */
            checkpoint?: number | null;
            /** Experiment */
            experiment?: number | null;
            /**
             * Load
             * @default all
             * @enum {string}
             */
            load: "all" | "weights";
            /**
             * Pick
             * @default latest
             * @enum {string}
             */
            pick: "latest" | "best";
            /** Trial */
            trial?: string | null;
        };
        /**
         * ForkIn
         * @description A new experiment made from an existing one. Without any field, it has the same document.
         */
        ForkIn: {
            /** Blob Sha256 */
            blob_sha256?: string | null;
            code_version?: components["schemas"]["CodeVersionIn"] | null;
            /** Document */
            document?: string | null;
            from?: components["schemas"]["ForkFromIn"] | null;
            /** Left Out */
            left_out?: string[] | null;
            /**
             * Overrides
             * @default []
             */
            overrides: string[];
        };
        /**
         * FreedOut
         * @description What a deletion removes.
         */
        FreedOut: {
            /** Bundle Bytes */
            bundle_bytes: number;
            /** Checkpoint Bytes */
            checkpoint_bytes: number;
            /** Log Bytes */
            log_bytes: number;
            /** Metric Bytes */
            metric_bytes: number;
            /** Num Checkpoints */
            num_checkpoints: number;
            /** Num Log Streams */
            num_log_streams: number;
            /** Num Outputs */
            num_outputs: number;
            /** Num Series */
            num_series: number;
            /** Num Trials */
            num_trials: number;
            /** Outputs Bytes */
            outputs_bytes: number;
            /** Storages */
            storages: components["schemas"]["StorageShare"][];
        };
        /**
         * GpuUsage
         * @description Use of an NVIDIA device, by NVML; None is what it does not report.
         */
        GpuUsage: {
            /** Index */
            index: number;
            /** Memory Total Bytes */
            memory_total_bytes: number;
            /** Memory Used Bytes */
            memory_used_bytes: number;
            /** Name */
            name: string;
            /** Power W */
            power_w: number | null;
            /** Temperature C */
            temperature_c: number | null;
            /** Use Pct */
            use_pct: number | null;
        };
        /**
         * GroupCountOut
         * @description Collectives of one process group on one rank. Messages between two ranks do not count.
         */
        GroupCountOut: {
            /** Group */
            group: string;
            /** Kind */
            kind: string;
            /** Num Completed */
            num_completed: number;
            /** Num Enqueued */
            num_enqueued: number;
        };
        /**
         * GroupProgress
         * @description Collectives of one process group on one rank. Messages between two ranks are not counted.
         */
        GroupProgress: {
            /** Group */
            group: string;
            /**
             * Kind
             * @default
             */
            kind: string;
            /** Num Completed */
            num_completed: number;
            /** Num Enqueued */
            num_enqueued: number;
        };
        /**
         * GroupRecord
         * @description A process group and its members by global rank, in group-rank order.
         */
        GroupRecord: {
            /** Backend */
            backend: string;
            /** Kind */
            kind: string;
            /** Name */
            name: string;
            /** Ranks */
            ranks: number[];
            /**
             * Type
             * @default group
             * @constant
             */
            type: "group";
        };
        /**
         * HeadlineOut
         * @description The metric that stands for an experiment in lists: that of its search, else a loss of the
         *     validation data, else a loss of the training data, of its best or first trial.
         */
        HeadlineOut: {
            /** Best */
            best: number | ("NaN" | "Infinity" | "-Infinity") | null;
            /** Last */
            last: number | ("NaN" | "Infinity" | "-Infinity");
            /** Name */
            name: string;
            /** Step */
            step: number;
            /** Trial Id */
            trial_id: number;
        };
        /** Healthy */
        Healthy: {
            /**
             * Status
             * @constant
             */
            status: "ok";
        };
        /** ImportanceOut */
        ImportanceOut: {
            /** Min Trials */
            min_trials: number;
            /** Num Trials */
            num_trials: number;
            /** Shares */
            shares: {
                [key: string]: number;
            } | null;
        };
        /**
         * ImpossibleOut
         * @description A waiting trial whose request the present nodes can never satisfy.
         */
        ImpossibleOut: {
            /** Experiment Id */
            experiment_id: number;
            /** Experiment Name */
            experiment_name: string;
            /** Pending Parts */
            pending_parts: components["schemas"]["PartOut"][];
            /** Pending Reason */
            pending_reason: string;
            /** Trial Id */
            trial_id: number;
            /** Trial No */
            trial_no: number;
            /**
             * Waiting Since
             * Format: date-time
             */
            waiting_since: string;
        };
        /** InboxCountOut */
        InboxCountOut: {
            /** Num Unread */
            num_unread: number;
        };
        /** InboxEntryOut */
        InboxEntryOut: {
            /**
             * At
             * Format: date-time
             */
            at: string;
            /** Experiment Id */
            experiment_id: number | null;
            /** Experiment Name */
            experiment_name: string | null;
            /** Id */
            id: number;
            /** Is Read */
            is_read: boolean;
            /**
             * Kind
             * @enum {string}
             */
            kind: "trial.failed" | "trial.stuck" | "search.finished" | "experiment.ended" | "experiment.new_best" | "checkpoint.damaged" | "budget.reached" | "node.lost" | "test";
            /**
             * Level
             * @enum {string}
             */
            level: "info" | "warning" | "error";
            /** Message */
            message: string;
            /** Node Id */
            node_id: string | null;
            /** Node Name */
            node_name: string | null;
            /** Path */
            path: string;
            /** Project */
            project: string | null;
            /** Title */
            title: string;
            /** Trial Id */
            trial_id: number | null;
            /** Trial No */
            trial_no: number | null;
        };
        /** InboxReadIn */
        InboxReadIn: {
            /** Ids */
            ids?: number[] | null;
        };
        /**
         * InputFile
         * @description An input as it was when the job began. One that differs later is an error.
         */
        InputFile: {
            /** Digest */
            digest: string;
            /**
             * Kind
             * @enum {string}
             */
            kind: "jsonl" | "jsonl_gz" | "parquet" | "images";
            /** Mtime Ns */
            mtime_ns: number;
            /** Num Rows */
            num_rows: number;
            /** Path */
            path: string;
            /** Size Bytes */
            size_bytes: number;
        };
        /**
         * InterfaceUsage
         * @description A network interface. The loopback is one of them.
         */
        InterfaceUsage: {
            /** Name */
            name: string;
            /** Received Bytes Per S */
            received_bytes_per_s: number;
            /** Sent Bytes Per S */
            sent_bytes_per_s: number;
        };
        /**
         * Inventory
         * @description What a node is and has. Sent at registration.
         */
        Inventory: {
            /** Address */
            address: string;
            /** Agent Version */
            agent_version: string;
            /** Chores */
            chores?: string[];
            /**
             * Container Reason
             * @default
             */
            container_reason: string;
            /**
             * Container Runtime
             * @default
             */
            container_runtime: string;
            /**
             * Container Version
             * @default
             */
            container_version: string;
            /**
             * Cuda Version
             * @default
             */
            cuda_version: string;
            /** Disk Free Bytes */
            disk_free_bytes: number;
            /**
             * Driver Version
             * @default
             */
            driver_version: string;
            /** Hostname */
            hostname: string;
            /**
             * Isolation
             * @default none
             * @enum {string}
             */
            isolation: "none" | "user" | "sandbox";
            /**
             * Isolation Reason
             * @default
             */
            isolation_reason: string;
            /** Memory Bytes */
            memory_bytes: number;
            /** Num Cpus */
            num_cpus: number;
            /** Platform */
            platform: string;
            /** Python Version */
            python_version: string;
            /** Slots */
            slots: components["schemas"]["SlotInfo"][];
            /**
             * Storage Id
             * @default
             */
            storage_id: string;
            /**
             * Torch Version
             * @default
             */
            torch_version: string;
        };
        /**
         * JobEnvironment
         * @description What the processes of an attempt run with, for people who want to repeat it. "" is none, or
         *     unknown.
         */
        JobEnvironment: {
            /**
             * Cuda Version
             * @default
             */
            cuda_version: string;
            /**
             * Driver Version
             * @default
             */
            driver_version: string;
            /**
             * Image
             * @default
             */
            image: string;
            /**
             * Image Digest
             * @default
             */
            image_digest: string;
            /**
             * Image Id
             * @default
             */
            image_id: string;
            /**
             * Muster Version
             * @default
             */
            muster_version: string;
            /**
             * Num Packages
             * @default 0
             */
            num_packages: number;
            /** Packages */
            packages?: string[];
            /** Python */
            python: string;
            /** Python Version */
            python_version: string;
            /**
             * Torch Version
             * @default
             */
            torch_version: string;
        };
        /**
         * JobEnvironmentOut
         * @description What the processes of an attempt ran with, as its first node told.
         */
        JobEnvironmentOut: {
            /** Attempt No */
            attempt_no: number;
            /** Cuda Version */
            cuda_version: string;
            /** Driver Version */
            driver_version: string;
            /** Image */
            image: string;
            /** Image Digest */
            image_digest: string;
            /** Image Id */
            image_id: string;
            /** Muster Version */
            muster_version: string;
            /** Node Name */
            node_name: string;
            /** Num Packages */
            num_packages: number;
            /** Packages */
            packages: string[];
            /** Python */
            python: string;
            /** Python Version */
            python_version: string;
            /** Torch Version */
            torch_version: string;
        };
        /** JoinTokenCreated */
        JoinTokenCreated: {
            /** Command */
            command: string;
            /**
             * Created At
             * Format: date-time
             */
            created_at: string;
            /**
             * Expires At
             * Format: date-time
             */
            expires_at: string;
            /** Id */
            id: number;
            /** Pool */
            pool: string;
            /** Prefix */
            prefix: string;
            /** Secret */
            secret: string;
            /** Server Url */
            server_url: string;
            /** This Machine Only */
            this_machine_only: boolean;
            /** Uses Left */
            uses_left: number;
        };
        /** JoinTokenIn */
        JoinTokenIn: {
            /** Expires In S */
            expires_in_s?: number | null;
            /**
             * Pool
             * @default default
             */
            pool: string;
            /**
             * Uses
             * @default 1
             */
            uses: number;
        };
        /** JoinTokenOut */
        JoinTokenOut: {
            /**
             * Created At
             * Format: date-time
             */
            created_at: string;
            /**
             * Expires At
             * Format: date-time
             */
            expires_at: string;
            /** Id */
            id: number;
            /** Pool */
            pool: string;
            /** Prefix */
            prefix: string;
            /** Uses Left */
            uses_left: number;
        };
        /**
         * KeepIn
         * @description Number of checkpoints to keep. A checkpoint is kept if any of these numbers keeps it.
         */
        KeepIn: {
            /**
             * Best
             * @default 1
             */
            best: number;
            /**
             * Experiment Best
             * @default 0
             */
            experiment_best: number;
            /**
             * Last
             * @default 1
             */
            last: number;
        };
        /**
         * KeepOutputsOut
         * @description Which outputs of its trials an experiment keeps, as its document says.
         */
        KeepOutputsOut: {
            /** Days */
            days: number | null;
            /** Experiment Best */
            experiment_best: number;
            /** Max Bytes */
            max_bytes: number | null;
        };
        /**
         * KindTrafficOut
         * @description One kind of collective of one process group: means over its members, and over all measured
         *     steps, those without one included.
         */
        KindTrafficOut: {
            /** Algorithm Bytes Per S */
            algorithm_bytes_per_s: number | null;
            /** Bus Bytes Per S */
            bus_bytes_per_s: number | null;
            /** Count */
            count: number;
            /** Group */
            group: string;
            /** Kind */
            kind: string;
            /** Num Bytes */
            num_bytes: number;
            /** Num Rows */
            num_rows: number;
            /** Num Rows With */
            num_rows_with: number;
            /** Ranks */
            ranks: number[];
            /** Time Ms */
            time_ms: number;
            /** Time Ms With */
            time_ms_with: number;
            /** Transfer Ms */
            transfer_ms: number | null;
            /** Wait Ms */
            wait_ms: number | null;
        };
        /**
         * Layer
         * @description A part of a model that strategies treat as one.
         */
        Layer: {
            /** Activations */
            activations: {
                [key: string]: components["schemas"]["Activations"];
            };
            /** Buffer Bytes */
            buffer_bytes: number;
            /** Flops */
            flops: number;
            /** Input Bytes */
            input_bytes: number;
            /** Is Block */
            is_block: boolean;
            /** Name */
            name: string;
            /** Parameters */
            parameters: components["schemas"]["LayerParameter"][];
        };
        /**
         * LayerParameter
         * @description A tensor that a model owns. One that several layers share belongs to the first of them.
         */
        LayerParameter: {
            /** Bytes Per Value */
            bytes_per_value: number;
            /** Shape */
            shape: number[];
            /**
             * Split
             * @default false
             */
            split: boolean;
            /**
             * Trainable
             * @default true
             */
            trainable: boolean;
        };
        /**
         * LayerTable
         * @description A model for one shape of samples.
         */
        LayerTable: {
            /** Layers */
            layers: components["schemas"]["Layer"][];
            /** Output Bytes */
            output_bytes: number;
            /** Sample Bytes */
            sample_bytes: number;
        };
        /**
         * LeaderboardOut
         * @description Evaluations by the same samples and the same code of the metrics.
         */
        LeaderboardOut: {
            /** Data */
            data: string;
            /** Data Digest */
            data_digest: string;
            /**
             * Goal
             * @enum {string}
             */
            goal: "min" | "max";
            /** Metric */
            metric: string;
            /** Metrics Version */
            metrics_version: number;
            /** Num Versions */
            num_versions: number;
            /** Rows */
            rows: components["schemas"]["LeaderboardRowOut"][];
            /** Split */
            split: string;
        };
        /**
         * LeaderboardRowOut
         * @description The newest evaluation of a version by a data set.
         */
        LeaderboardRowOut: {
            /** Aliases */
            aliases: string[];
            /** Device */
            device: string;
            /**
             * Evaluated At
             * Format: date-time
             */
            evaluated_at: string;
            /** Experiment Id */
            experiment_id: number;
            /** Metrics */
            metrics: {
                [key: string]: number | ("NaN" | "Infinity" | "-Infinity");
            };
            /** Model */
            model: string;
            /** Num Parameters */
            num_parameters: number | null;
            /** Num Samples */
            num_samples: number | null;
            /** Peak Memory Bytes */
            peak_memory_bytes: number | null;
            /** Rank */
            rank: number | null;
            /** Slots */
            slots: number | null;
            /** Speed */
            speed: {
                [key: string]: number | ("NaN" | "Infinity" | "-Infinity");
            };
            /** Version */
            version: number;
        };
        /** LeaseReply */
        LeaseReply: {
            /** Assignments Index */
            assignments_index?: number | null;
            /** Credential */
            credential?: string | null;
            /** Heartbeat S */
            heartbeat_s: number;
            /** Lease S */
            lease_s: number;
            /** Server Time Ms */
            server_time_ms?: number | null;
        };
        /** LeaseRequest */
        LeaseRequest: {
            /**
             * Accepts Credential
             * @default false
             */
            accepts_credential: boolean;
            clock?: components["schemas"]["ClockReading"] | null;
            /** Node Id */
            node_id: string;
            /** Problems */
            problems?: components["schemas"]["NodeProblem"][] | null;
            /** Running */
            running?: string[] | null;
            /** Session Epoch */
            session_epoch: number;
            usage?: components["schemas"]["NodeUsage"] | null;
        };
        /** LeaveReply */
        LeaveReply: {
            /** Num Open */
            num_open: number;
        };
        /**
         * LeaveRequest
         * @description Sent by a pilot that is about to end. Safe to repeat.
         */
        LeaveRequest: {
            /** Node Id */
            node_id: string;
            /** Reason */
            reason: string;
            /** Session Epoch */
            session_epoch: number;
            /**
             * Stage
             * @enum {string}
             */
            stage: "closing" | "draining" | "gone";
        };
        /** LeftOutOut */
        LeftOutOut: {
            /** Probe */
            probe: string;
            /** Reason */
            reason: string;
        };
        /**
         * LengthIn
         * @description Total training length, counted from step 0, in exactly one unit: steps or epochs. For a
         *     search whose `max_length` is in samples or seconds, use that unit.
         */
        LengthIn: {
            /** Epochs */
            epochs?: number | null;
            /** Samples */
            samples?: number | null;
            /** Seconds */
            seconds?: number | null;
            /** Steps */
            steps?: number | null;
        };
        /**
         * LinkReport
         * @description Result of testing the connection to another node.
         */
        LinkReport: {
            /** Message */
            message: string;
            /** Ms */
            ms: number | null;
            /** Rank */
            rank: number;
        };
        /** LiveTicket */
        LiveTicket: {
            /** Ticket */
            ticket: string;
        };
        /**
         * LogHistogram
         * @description Number of finished lines by the time they were received: one entry per bucket, oldest
         *     first.
         */
        LogHistogram: {
            /** Edges Ms */
            edges_ms: number[];
            /** Levels */
            levels: {
                [key: string]: number[];
            };
            /** Num Left */
            num_left: number;
            /** Num Lines */
            num_lines: number[];
        };
        /**
         * LogLeft
         * @description Streams of an experiment that a page leaves out, because one request reads only a limited
         *     number.
         */
        LogLeft: {
            /** Num Streams */
            num_streams: number;
            /**
             * Until
             * Format: date-time
             */
            until: string;
        };
        /** LogLine */
        LogLine: {
            /** Attempt No */
            attempt_no: number;
            /** Cut */
            cut: boolean;
            /** Level */
            level: ("debug" | "info" | "warning" | "error" | "critical") | null;
            /** Local Rank */
            local_rank: number;
            /** No */
            no: number;
            /** Node Name */
            node_name: string;
            /**
             * Partial
             * @default false
             */
            partial: boolean;
            /** Rank */
            rank: number;
            /** Stream */
            stream: string;
            /** Stream Id */
            stream_id: number;
            /** Text */
            text: string;
            /** Time Ms */
            time_ms: number;
            /** Trial Id */
            trial_id: number;
            /** Trial No */
            trial_no: number;
        };
        /** LogOffset */
        LogOffset: {
            /** Local Rank */
            local_rank: number;
            /** Offset */
            offset: number;
            /**
             * Stream
             * @enum {string}
             */
            stream: "stdout" | "stderr";
        };
        /** LogPage */
        LogPage: {
            /** At End */
            at_end: boolean;
            /** Complete */
            complete: boolean;
            left?: components["schemas"]["LogLeft"] | null;
            /** Lines */
            lines: components["schemas"]["LogLine"][];
            /** Newer */
            newer: string | null;
            /** Num Lines */
            num_lines: number;
            /** Older */
            older: string | null;
            /**
             * Search Stopped
             * @default false
             */
            search_stopped: boolean;
            searched?: components["schemas"]["LogSearched"] | null;
            /** Truncated Streams */
            truncated_streams: string[];
        };
        /** LogRetentionOut */
        LogRetentionOut: {
            /** Days */
            days: number | null;
            /** Freed Bytes */
            freed_bytes: number;
            /** Num Trials */
            num_trials: number;
            /** Size Bytes */
            size_bytes: number;
        };
        /**
         * LogSearched
         * @description Progress of one page of a filtered search through the log, in the direction of reading; the
         *     next page continues there.
         */
        LogSearched: {
            /** Left Bytes */
            left_bytes: number;
            /** Left Lines */
            left_lines: number;
            /** Num Bytes */
            num_bytes: number;
            /** Num Lines */
            num_lines: number;
        };
        /** LogStreamOut */
        LogStreamOut: {
            /** Attempt No */
            attempt_no: number;
            /** Is Complete */
            is_complete: boolean;
            /** Local Rank */
            local_rank: number;
            /** Node Name */
            node_name: string;
            /** Num Lines */
            num_lines: number;
            /** Rank */
            rank: number;
            /** Size Bytes */
            size_bytes: number;
            /** Stream */
            stream: string;
            /** Stream Id */
            stream_id: number;
        };
        /**
         * LogValueName
         * @description The values of one metric that a pattern finds.
         */
        LogValueName: {
            /** Last */
            last: number | ("NaN" | "Infinity" | "-Infinity");
            /** Last Step */
            last_step: number;
            /** Name */
            name: string;
            /** Num Values */
            num_values: number;
        };
        /**
         * LogValueOut
         * @description A value that a pattern finds in a log.
         */
        LogValueOut: {
            /** Epoch */
            epoch: number | null;
            /** Line */
            line: string;
            /** Name */
            name: string;
            /** Rank */
            rank: number;
            /** Step */
            step: number;
            /** Value */
            value: number | ("NaN" | "Infinity" | "-Infinity");
        };
        /**
         * LogValuesOut
         * @description What a pattern finds in a log.
         */
        LogValuesOut: {
            /** First */
            first: components["schemas"]["LogValueOut"][];
            /** Left Bytes */
            left_bytes: number;
            /** Names */
            names: components["schemas"]["LogValueName"][];
            /** Num Lines */
            num_lines: number;
            /** Num Names */
            num_names: number;
            /** Num Refused */
            num_refused: number;
            /** Num Values */
            num_values: number;
            /** Refused */
            refused: string;
            /** Searched Bytes */
            searched_bytes: number;
        };
        /** LoginIn */
        LoginIn: {
            /** Password */
            password: string;
            /** Username */
            username: string;
        };
        /**
         * LogsReply
         * @description Answer to `POST /agent/v1/allocations/{id}/logs/{local_rank}/{stream}?offset=N`, whose body
         *     is the raw bytes from that offset (at most 1 MiB). A wrong offset changes nothing and is
         *     answered with 200 and the offset to resume from.
         */
        LogsReply: {
            /** Next Offset */
            next_offset: number;
        };
        /** MailServerIn */
        MailServerIn: {
            /** Host */
            host: string;
            /**
             * Password
             * @default
             */
            password: string;
            /**
             * Port
             * @default 587
             */
            port: number;
            /**
             * Security
             * @default starttls
             * @enum {string}
             */
            security: "starttls" | "tls" | "none";
            /** Sender */
            sender: string;
            /**
             * Username
             * @default
             */
            username: string;
        };
        /** MeOut */
        MeOut: {
            /** Has Password */
            has_password: boolean;
            /** Id */
            id: number;
            /** Permissions */
            permissions: string[];
            /**
             * Role
             * @enum {string}
             */
            role: "admin" | "member" | "viewer";
            /** Username */
            username: string;
        };
        /**
         * MeasuredOut
         * @description Step time of one kind of probe.
         */
        MeasuredOut: {
            /** Probe */
            probe: string;
            /** Repeats Ms */
            repeats_ms: number[];
            step_ms: components["schemas"]["EstimateOut"] | null;
        };
        /**
         * MediaContentOut
         * @description Whether the server has the content of an item now.
         */
        MediaContentOut: {
            /** Id */
            id: number;
            /** Message */
            message: string;
            /**
             * State
             * @enum {string}
             */
            state: "ready" | "pending" | "failed";
            /** Waits For */
            waits_for: string;
        };
        /**
         * MediaDropsOut
         * @description Items that were left out, of all attempts.
         */
        MediaDropsOut: {
            /** Num */
            num: number;
            /** Reason */
            reason: string;
        };
        /**
         * MediaDropsRecord
         * @description Items of one rank that were left out since the attempt began. Replaces earlier ones.
         */
        MediaDropsRecord: {
            /** Num */
            num: {
                [key: string]: number;
            };
            /** Rank */
            rank: number;
            /**
             * Type
             * @default media_drops
             * @constant
             */
            type: "media_drops";
        };
        /** MediaItemOut */
        MediaItemOut: {
            /**
             * At
             * Format: date-time
             */
            at: string;
            /** Attempt No */
            attempt_no: number;
            /** Caption */
            caption: string;
            /** File */
            file: string;
            /** Height */
            height: number;
            /** Id */
            id: number;
            /**
             * Kind
             * @enum {string}
             */
            kind: "image" | "figure" | "histogram" | "text" | "table" | "pr_curve" | "confusion_matrix" | "audio" | "video";
            /** Mime */
            mime: string;
            /** Name */
            name: string;
            /** Rank */
            rank: number;
            /** Sha256 */
            sha256: string;
            /** Size Bytes */
            size_bytes: number;
            /** Step */
            step: number;
            /** Trial Id */
            trial_id: number;
            /** Width */
            width: number;
        };
        /** MediaOverviewOut */
        MediaOverviewOut: {
            /** Dropped */
            dropped: components["schemas"]["MediaDropsOut"][];
            /** Num Series */
            num_series: number;
            /** Series */
            series: components["schemas"]["MediaSeriesOut"][];
        };
        /**
         * MediaRecord
         * @description One item that a rank has logged at a step. Its content is in `data`, or in a file of the outputs
         *     that is complete before this record.
         */
        MediaRecord: {
            /**
             * Caption
             * @default
             */
            caption: string;
            /**
             * Data
             * @default
             */
            data: string;
            /**
             * File
             * @default
             */
            file: string;
            /**
             * Height
             * @default 0
             */
            height: number;
            /**
             * Kind
             * @enum {string}
             */
            kind: "image" | "figure" | "histogram" | "text" | "table" | "pr_curve" | "confusion_matrix" | "audio" | "video";
            /** Mime */
            mime: string;
            /** Name */
            name: string;
            /** Rank */
            rank: number;
            /** Sha256 */
            sha256: string;
            /** Size Bytes */
            size_bytes: number;
            /** Step */
            step: number;
            /** Time Ms */
            time_ms: number;
            /**
             * Type
             * @default media
             * @constant
             */
            type: "media";
            /**
             * Width
             * @default 0
             */
            width: number;
        };
        /**
         * MediaSeriesOut
         * @description All items of one name and kind that are shown; those that a later attempt replaces are not.
         */
        MediaSeriesOut: {
            /**
             * Kind
             * @enum {string}
             */
            kind: "image" | "figure" | "histogram" | "text" | "table" | "pr_curve" | "confusion_matrix" | "audio" | "video";
            /**
             * Last At
             * Format: date-time
             */
            last_at: string;
            /** Name */
            name: string;
            /** Num Items */
            num_items: number;
            /** Num Steps */
            num_steps: number;
            /** Ranks */
            ranks: number[];
            /** Steps */
            steps: number[];
        };
        /**
         * MemoryOut
         * @description Memory in bytes of the slot that needs most, at its peak. Covers tensors only, not the
         *     interpreter, libraries or allocator overhead.
         */
        MemoryOut: {
            /** Activations */
            activations: number;
            /** Buffers */
            buffers: number;
            /** Gradients */
            gradients: number;
            /** Optimizer */
            optimizer: number;
            /** Parameters */
            parameters: number;
            /** Total */
            total: number;
        };
        /**
         * MessageRecord
         * @description Message for the user in the trial's events.
         */
        MessageRecord: {
            /**
             * Event
             * @default
             */
            event: string;
            /**
             * Level
             * @enum {string}
             */
            level: "info" | "warning" | "error";
            /** Text */
            text: string;
            /**
             * Type
             * @default message
             * @constant
             */
            type: "message";
        };
        /** MetricRetentionOut */
        MetricRetentionOut: {
            /** Days */
            days: number | null;
            /** Freed Bytes */
            freed_bytes: number;
            /** Num Points */
            num_points: number;
            /** Num Sampled */
            num_sampled: number;
            /** Num Trials */
            num_trials: number;
            /** Size Bytes */
            size_bytes: number;
        };
        /**
         * MetricSummary
         * @description Summary of a metric over the visible curve of one rank, the lowest that reports it.
         */
        MetricSummary: {
            /** Count */
            count: number;
            /** Last */
            last: number | ("NaN" | "Infinity" | "-Infinity");
            /** Max */
            max: number | null;
            /** Min */
            min: number | null;
            /**
             * Recent Count
             * @default 0
             */
            recent_count: number;
            /** Recent Mean */
            recent_mean?: number | null;
            /** Step */
            step: number;
        };
        /**
         * MetricsRecord
         * @description Points of one worker. Names are `group/name_unit`.
         */
        MetricsRecord: {
            /** Epoch */
            epoch?: number | null;
            /** Local Rank */
            local_rank: number;
            /** Num Steps Planned */
            num_steps_planned?: number | null;
            /** Rank */
            rank: number;
            /** Series */
            series: components["schemas"]["SeriesPoints"][];
            /**
             * Step
             * @default 0
             */
            step: number;
            /**
             * Type
             * @default metrics
             * @constant
             */
            type: "metrics";
        };
        /** ModelAliasMoveOut */
        ModelAliasMoveOut: {
            /** Alias */
            alias: string;
            /**
             * At
             * Format: date-time
             */
            at: string;
            /** By */
            by: string;
            /** Id */
            id: number;
            /** Previous */
            previous: number | null;
            /** Reason */
            reason: string;
            /** Version */
            version: number | null;
        };
        /** ModelAliasOut */
        ModelAliasOut: {
            /**
             * Moved At
             * Format: date-time
             */
            moved_at: string;
            /** Moved By */
            moved_by: string;
            /** Name */
            name: string;
            /** Reason */
            reason: string;
            /** Version */
            version: number;
        };
        /**
         * ModelBlobOut
         * @description Progress of an upload.
         */
        ModelBlobOut: {
            /** Is Complete */
            is_complete: boolean;
            /** Received Bytes */
            received_bytes: number;
            /** Sha256 */
            sha256: string;
            /** Size Bytes */
            size_bytes: number;
        };
        /**
         * ModelExportJobOut
         * @description A job that exports a version.
         */
        ModelExportJobOut: {
            /**
             * Created At
             * Format: date-time
             */
            created_at: string;
            /** Experiment Id */
            experiment_id: number;
            /** Experiment State */
            experiment_state: string;
            /** Exports */
            exports: components["schemas"]["ModelExportOut"][];
            /** Inputs */
            inputs: string;
            /** Inputs Sha256 */
            inputs_sha256: string;
            /** Result At */
            result_at: string | null;
            /** Torch */
            torch: string;
            /** Trial Id */
            trial_id: number | null;
        };
        /**
         * ModelExportOut
         * @description A version in one format.
         */
        ModelExportOut: {
            comparison?: components["schemas"]["ExportComparisonOut"] | null;
            /**
             * Digest
             * @default
             */
            digest: string;
            /**
             * Files
             * @default []
             */
            files: components["schemas"]["ExportFileOut"][];
            /**
             * Format
             * @enum {string}
             */
            format: "safetensors" | "hf" | "pt2" | "onnx";
            /** Message */
            message: string;
            /**
             * Path
             * @default
             */
            path: string;
            /**
             * Size Bytes
             * @default 0
             */
            size_bytes: number;
            /**
             * State
             * @enum {string}
             */
            state: "queued" | "running" | "done" | "failed";
        };
        /** ModelFetchIn */
        ModelFetchIn: {
            /**
             * Part
             * @default 0
             */
            part: number;
            /** Path */
            path: string;
        };
        /**
         * ModelFetchOut
         * @description A part of a file that is to be downloaded.
         */
        ModelFetchOut: {
            /** Export Id */
            export_id: number | null;
            /** Message */
            message: string;
            /** Sha256 */
            sha256: string;
            /** Size Bytes */
            size_bytes: number | null;
            /**
             * State
             * @enum {string}
             */
            state: "ready" | "pending" | "failed";
            /** Waits For */
            waits_for: string;
        };
        /** ModelFile */
        ModelFile: {
            /** Num Parts */
            num_parts: number;
            /** Path */
            path: string;
            /** Sha256 */
            sha256: string;
            /** Size Bytes */
            size_bytes: number | null;
        };
        /** ModelFileOut */
        ModelFileOut: {
            /** Is At Server */
            is_at_server: boolean;
            /** Num Parts */
            num_parts: number;
            /** Path */
            path: string;
            /** Sha256 */
            sha256: string;
            /** Size Bytes */
            size_bytes: number | null;
            /** Warning */
            warning: string;
        };
        /** ModelFilesReply */
        ModelFilesReply: {
            /** Files */
            files: components["schemas"]["ModelFile"][];
            /** Size Bytes */
            size_bytes: number;
        };
        /**
         * ModelFilesRequest
         * @description `POST /agent/v1/allocations/{id}/models`.
         */
        ModelFilesRequest: {
            /** Attempt No */
            attempt_no: number;
            /** Name */
            name: string;
            /** Node Id */
            node_id: string;
            /** Session Epoch */
            session_epoch: number;
        };
        /** ModelIn */
        ModelIn: {
            /**
             * Description
             * @default
             */
            description: string;
            /** Name */
            name: string;
            /**
             * Project
             * @default default
             */
            project: string;
            /**
             * Tags
             * @default {}
             */
            tags: {
                [key: string]: string;
            };
        };
        /** ModelItem */
        ModelItem: {
            /** Aliases */
            aliases: components["schemas"]["ModelAliasOut"][];
            /**
             * Created At
             * Format: date-time
             */
            created_at: string;
            /** Created By */
            created_by: string;
            /** Description */
            description: string;
            /** Id */
            id: number;
            /** Latest Version */
            latest_version: number | null;
            /** May Change */
            may_change: boolean;
            /** Name */
            name: string;
            /** Num Versions */
            num_versions: number;
            /** Owner */
            owner: string | null;
            /** Project */
            project: string;
            /** Tags */
            tags: {
                [key: string]: string;
            };
            /**
             * Updated At
             * Format: date-time
             */
            updated_at: string;
        };
        /**
         * ModelLineageOut
         * @description What a version comes from, and what was done with it.
         */
        ModelLineageOut: {
            /** Checkpoint Id */
            checkpoint_id: number | null;
            /** Model */
            model: string;
            /** Num Uses */
            num_uses: number;
            /** Produced */
            produced: components["schemas"]["ProducedVersionOut"][];
            /** Read */
            read: components["schemas"]["ModelUseOut"][];
            /** Sources */
            sources: {
                [key: string]: unknown;
            };
            /** Step */
            step: number | null;
            /** Uses */
            uses: components["schemas"]["ModelUseOut"][];
            /** Version */
            version: number;
        };
        /** ModelPartReply */
        ModelPartReply: {
            /** Export Id */
            export_id?: number | null;
            /**
             * Message
             * @default
             */
            message: string;
            /**
             * Sha256
             * @default
             */
            sha256: string;
            /**
             * State
             * @enum {string}
             */
            state: "ready" | "pending" | "failed";
            /**
             * Waits For
             * @default
             */
            waits_for: string;
        };
        /**
         * ModelPartRequest
         * @description `POST /agent/v1/allocations/{id}/models/parts`: have a part of a file read, if the server lacks
         *     it. Repeated until it is ready.
         */
        ModelPartRequest: {
            /** Attempt No */
            attempt_no: number;
            /** Drops */
            drops?: number | null;
            /** Export Id */
            export_id?: number | null;
            /** Name */
            name: string;
            /** Node Id */
            node_id: string;
            /**
             * Part
             * @default 0
             */
            part: number;
            /** Path */
            path: string;
            /** Session Epoch */
            session_epoch: number;
        };
        /**
         * ModelPatch
         * @description What is left out stays as it is.
         */
        ModelPatch: {
            /** Description */
            description?: string | null;
            /** Name */
            name?: string | null;
            /** Tags */
            tags?: {
                [key: string]: string;
            } | null;
        };
        /** ModelPromotionOut */
        ModelPromotionOut: {
            /** Alias */
            alias: string;
            /**
             * Created At
             * Format: date-time
             */
            created_at: string;
            /** Created By */
            created_by: string;
            /** Decided At */
            decided_at: string | null;
            /** Experiment Id */
            experiment_id: number;
            /** Goal */
            goal: string;
            /** Id */
            id: number;
            /** Message */
            message: string;
            /** Metric */
            metric: string;
            /**
             * State
             * @enum {string}
             */
            state: "waiting" | "moved" | "kept" | "refused";
            /** Version */
            version: number | null;
        };
        /**
         * ModelResultRecord
         * @description What came of a version of a model in this job. A later result of the same name replaces it.
         */
        ModelResultRecord: {
            /** Name */
            name: string;
            /** Result */
            result: {
                [key: string]: unknown;
            };
            /**
             * Type
             * @default model_result
             * @constant
             */
            type: "model_result";
        };
        /**
         * ModelSpec
         * @description A version that an allocation reads.
         */
        ModelSpec: {
            /** Digest */
            digest: string;
            /** Model */
            model: string;
            /** Version */
            version: number;
        };
        /**
         * ModelUseOut
         * @description What an experiment does with a version, and what came of it.
         */
        ModelUseOut: {
            /**
             * Created At
             * Format: date-time
             */
            created_at: string;
            /** Experiment Id */
            experiment_id: number;
            /** Experiment Name */
            experiment_name: string;
            /** Experiment State */
            experiment_state: string;
            /** Id */
            id: number;
            /**
             * Kind
             * @enum {string}
             */
            kind: "input" | "export" | "evaluation" | "prediction" | "deployment";
            /** Model */
            model: string;
            /** Name */
            name: string;
            /** Result */
            result: {
                [key: string]: unknown;
            } | null;
            /** Result At */
            result_at: string | null;
            /** Version */
            version: number;
        };
        /**
         * ModelVersionItem
         * @description A version without its files and card.
         */
        ModelVersionItem: {
            /** Aliases */
            aliases: string[];
            /** Checkpoint Id */
            checkpoint_id: number | null;
            /**
             * Created At
             * Format: date-time
             */
            created_at: string;
            /** Created By */
            created_by: string;
            /** Digest */
            digest: string;
            /** Experiment Id */
            experiment_id: number | null;
            /** Is Unsafe */
            is_unsafe: boolean;
            /** Message */
            message: string;
            /** Metrics */
            metrics: {
                [key: string]: number | ("NaN" | "Infinity" | "-Infinity");
            };
            /** Model */
            model: string;
            /** Num Files */
            num_files: number;
            /** Number */
            number: number;
            /** Size Bytes */
            size_bytes: number;
            /**
             * Source
             * @enum {string}
             */
            source: "checkpoint" | "outputs" | "upload" | "mlflow";
            /**
             * State
             * @enum {string}
             */
            state: "making" | "ready" | "failed";
            /** Step */
            step: number | null;
            /** Tags */
            tags: {
                [key: string]: string;
            };
            /** Trial Id */
            trial_id: number | null;
        };
        /** ModelVersionOut */
        ModelVersionOut: {
            /** Aliases */
            aliases: string[];
            /** Card */
            card: string;
            /** Checkpoint Id */
            checkpoint_id: number | null;
            /**
             * Created At
             * Format: date-time
             */
            created_at: string;
            /** Created By */
            created_by: string;
            /** Digest */
            digest: string;
            /** Experiment Id */
            experiment_id: number | null;
            /** Files */
            files: components["schemas"]["ModelFileOut"][];
            /** Is New */
            is_new: boolean;
            /** Is Unsafe */
            is_unsafe: boolean;
            /** Lineage */
            lineage: {
                [key: string]: unknown;
            };
            /** May Change */
            may_change: boolean;
            /** Message */
            message: string;
            /** Metrics */
            metrics: {
                [key: string]: number | ("NaN" | "Infinity" | "-Infinity");
            };
            /** Model */
            model: string;
            /** Notes */
            notes: string;
            /** Num Files */
            num_files: number;
            /** Number */
            number: number;
            /** Signature */
            signature: {
                [key: string]: unknown;
            } | null;
            /** Size Bytes */
            size_bytes: number;
            /**
             * Source
             * @enum {string}
             */
            source: "checkpoint" | "outputs" | "upload" | "mlflow";
            /**
             * State
             * @enum {string}
             */
            state: "making" | "ready" | "failed";
            /** Step */
            step: number | null;
            /** Tags */
            tags: {
                [key: string]: string;
            };
            /** Trial Id */
            trial_id: number | null;
        };
        /**
         * NodeAllocationOut
         * @description The part of an attempt that ran, or runs, on a node.
         */
        NodeAllocationOut: {
            /** Attempt No */
            attempt_no: number;
            /**
             * Created At
             * Format: date-time
             */
            created_at: string;
            /** Ended At */
            ended_at: string | null;
            /** Experiment Id */
            experiment_id: number;
            /** Experiment Name */
            experiment_name: string;
            /** Id */
            id: string;
            /** Message */
            message: string;
            /** Num Slots */
            num_slots: number;
            /** State */
            state: string;
            /** Trial Id */
            trial_id: number;
            /** Trial No */
            trial_no: number;
        };
        /**
         * NodeFacts
         * @description Environment of an allocation on its node. "" is none, or unknown.
         */
        NodeFacts: {
            /**
             * Code Hash
             * @default
             */
            code_hash: string;
            /**
             * Cuda Version
             * @default
             */
            cuda_version: string;
            /**
             * Driver Version
             * @default
             */
            driver_version: string;
            /**
             * Image Id
             * @default
             */
            image_id: string;
            /**
             * Muster Version
             * @default
             */
            muster_version: string;
            /**
             * Python Version
             * @default
             */
            python_version: string;
            /**
             * Torch Version
             * @default
             */
            torch_version: string;
        };
        /** NodeOut */
        NodeOut: {
            /** Address */
            address: string;
            /** Agent Version */
            agent_version: string;
            /** Clock Skew S */
            clock_skew_s: number | null;
            /** Container Reason */
            container_reason: string;
            /** Container Runtime */
            container_runtime: string;
            /** Container Version */
            container_version: string;
            /** Cuda Version */
            cuda_version: string;
            /** Driver Version */
            driver_version: string;
            /** Ends At */
            ends_at: string | null;
            /** Health */
            health: string;
            /** Health Reason */
            health_reason: string;
            /** Hostname */
            hostname: string;
            /** Id */
            id: string;
            /** Is Pilot */
            is_pilot: boolean;
            /**
             * Isolation
             * @enum {string}
             */
            isolation: "none" | "user" | "sandbox";
            /** Isolation Reason */
            isolation_reason: string;
            /** Labels */
            labels: {
                [key: string]: string;
            };
            /**
             * Last Seen At
             * Format: date-time
             */
            last_seen_at: string;
            /** Memory Bytes */
            memory_bytes: number;
            /** Name */
            name: string;
            /** Num Cpus */
            num_cpus: number;
            /** Num Slots */
            num_slots: number;
            /** Num Slots Used */
            num_slots_used: number;
            /** Pool */
            pool: string;
            /** Problems */
            problems: components["schemas"]["NodeProblemOut"][];
            /** Provider Ref */
            provider_ref: string;
            /** Python Version */
            python_version: string;
            /** Quarantine Reason */
            quarantine_reason: string;
            /**
             * Registered At
             * Format: date-time
             */
            registered_at: string;
            /**
             * Scheduling
             * @enum {string}
             */
            scheduling: "open" | "cordoned" | "draining";
            /** Slots */
            slots: components["schemas"]["SlotOut"][];
            /** State */
            state: string;
            /** State Parts */
            state_parts: components["schemas"]["PartOut"][];
            /** State Reason */
            state_reason: string;
            /** Strike Reason */
            strike_reason: string;
            /** Strikes */
            strikes: number;
            /** Torch Version */
            torch_version: string;
            /** Usage */
            usage: {
                [key: string]: unknown;
            } | null;
        };
        /**
         * NodeOutputsOut
         * @description What one node of a trial has in the storage.
         */
        NodeOutputsOut: {
            /** Attempt No */
            attempt_no: number;
            /** Is Reachable */
            is_reachable: boolean;
            /** Left Out Bytes */
            left_out_bytes: number;
            /** Node Name */
            node_name: string;
            /** Node Rank */
            node_rank: number;
            /** Num Files */
            num_files: number;
            /** Num Left Out */
            num_left_out: number;
            /** Problem */
            problem: string;
            /** Size Bytes */
            size_bytes: number;
            /**
             * State
             * @enum {string}
             */
            state: "collecting" | "final" | "missing";
            /** Updated At */
            updated_at: string | null;
        };
        /** NodePatch */
        NodePatch: {
            /**
             * Scheduling
             * @enum {string}
             */
            scheduling: "open" | "cordoned" | "draining";
        };
        /**
         * NodeProblem
         * @description A problem that an agent's check has found on its node.
         */
        NodeProblem: {
            /**
             * Blocks
             * @default false
             */
            blocks: boolean;
            /** Kind */
            kind: string;
            /** Message */
            message: string;
        };
        /** NodeProblemOut */
        NodeProblemOut: {
            /** Blocks */
            blocks: boolean;
            /** Kind */
            kind: string;
            /** Message */
            message: string;
        };
        /**
         * NodeRankOut
         * @description A rank that runs on a node.
         */
        NodeRankOut: {
            /** Rank */
            rank: number;
            /** Slot */
            slot: number;
            /** Slot Type */
            slot_type: string;
            /** Trial Id */
            trial_id: number;
        };
        /**
         * NodeUsage
         * @description Instantaneous use of a node. Percentages are 0..100.
         */
        NodeUsage: {
            /** Cpu Pct */
            cpu_pct: number;
            /** Disk Free Bytes */
            disk_free_bytes: number;
            /**
             * Disk Read Bytes Per S
             * @default 0
             */
            disk_read_bytes_per_s: number;
            /**
             * Disk Written Bytes Per S
             * @default 0
             */
            disk_written_bytes_per_s: number;
            /**
             * Gpu Problem
             * @default
             */
            gpu_problem: string;
            /** Gpus */
            gpus?: components["schemas"]["GpuUsage"][] | null;
            /** Images Bytes */
            images_bytes?: number | null;
            /** Images Limit Bytes */
            images_limit_bytes?: number | null;
            /** Interfaces */
            interfaces?: components["schemas"]["InterfaceUsage"][];
            /**
             * Load 1M
             * @default 0
             */
            load_1m: number;
            /** Memory Total Bytes */
            memory_total_bytes: number;
            /** Memory Used Bytes */
            memory_used_bytes: number;
            /**
             * Net Received Bytes Per S
             * @default 0
             */
            net_received_bytes_per_s: number;
            /**
             * Net Sent Bytes Per S
             * @default 0
             */
            net_sent_bytes_per_s: number;
        };
        /**
         * NodeUsageOut
         * @description Usage of a node during one attempt of a trial. Each of `series` holds one value for each of
         *     `times`; null where nothing was reported.
         */
        NodeUsageOut: {
            /** Attempt No */
            attempt_no: number;
            /** Node Name */
            node_name: string;
            /** Series */
            series: {
                [key: string]: (number | null)[];
            };
            /** Times */
            times: string[];
        };
        /**
         * NoticeOut
         * @description What you should know about a search or a script before you read its results.
         */
        NoticeOut: {
            /** Parts */
            parts: components["schemas"]["PartOut"][];
            /** Text */
            text: string;
        };
        /**
         * NotificationOptionsOut
         * @description What can be chosen for rules and targets on this server.
         */
        NotificationOptionsOut: {
            /** Has Mail Server */
            has_mail_server: boolean;
            /** Is Encrypted */
            is_encrypted: boolean;
            /** Services */
            services: string[];
        };
        /** NotificationRuleIn */
        NotificationRuleIn: {
            /**
             * Inbox
             * @default true
             */
            inbox: boolean;
            /**
             * Is Enabled
             * @default true
             */
            is_enabled: boolean;
            /** Kinds */
            kinds: ("trial.failed" | "trial.stuck" | "search.finished" | "experiment.ended" | "experiment.new_best" | "checkpoint.damaged" | "budget.reached" | "node.lost")[];
            /** Owner Project */
            owner_project?: string | null;
            /** Project */
            project?: string | null;
            /**
             * Target Ids
             * @default []
             */
            target_ids: number[];
            /**
             * Whose
             * @default mine
             * @enum {string}
             */
            whose: "mine" | "all";
        };
        /** NotificationRuleOut */
        NotificationRuleOut: {
            /**
             * Changed At
             * Format: date-time
             */
            changed_at: string;
            /** Id */
            id: number;
            /** Inbox */
            inbox: boolean;
            /** Is Enabled */
            is_enabled: boolean;
            /** Kinds */
            kinds: ("trial.failed" | "trial.stuck" | "search.finished" | "experiment.ended" | "experiment.new_best" | "checkpoint.damaged" | "budget.reached" | "node.lost")[];
            /** Owner Project */
            owner_project: string | null;
            /** Project */
            project: string | null;
            /** Target Ids */
            target_ids: number[];
            /**
             * Whose
             * @enum {string}
             */
            whose: "mine" | "all";
        };
        /**
         * NotificationRulePatch
         * @description What is left out stays as it is.
         */
        NotificationRulePatch: {
            /** Inbox */
            inbox?: boolean | null;
            /** Is Enabled */
            is_enabled?: boolean | null;
            /** Kinds */
            kinds?: ("trial.failed" | "trial.stuck" | "search.finished" | "experiment.ended" | "experiment.new_best" | "checkpoint.damaged" | "budget.reached" | "node.lost")[] | null;
            /** Project */
            project?: string | null;
            /** Target Ids */
            target_ids?: number[] | null;
            /** Whose */
            whose?: ("mine" | "all") | null;
        };
        /** NotificationTargetIn */
        NotificationTargetIn: {
            /** Config */
            config: components["schemas"]["EmailIn"] | components["schemas"]["WebhookIn"] | components["schemas"]["AppriseIn"];
            /** Name */
            name: string;
            /** Project */
            project?: string | null;
        };
        /** NotificationTargetMade */
        NotificationTargetMade: {
            /** Secret */
            secret: string | null;
            target: components["schemas"]["NotificationTargetOut"];
        };
        /** NotificationTargetOut */
        NotificationTargetOut: {
            /**
             * Changed At
             * Format: date-time
             */
            changed_at: string;
            /** Changed By */
            changed_by: string;
            /** Disabled Reason */
            disabled_reason: string;
            /** Id */
            id: number;
            /** Is Enabled */
            is_enabled: boolean;
            /**
             * Kind
             * @enum {string}
             */
            kind: "email" | "webhook" | "apprise";
            /** Last Error */
            last_error: string;
            /** Last Sent At */
            last_sent_at: string | null;
            /** Name */
            name: string;
            /** Next Try At */
            next_try_at: string | null;
            /** Num Dropped */
            num_dropped: number;
            /** Num Failures */
            num_failures: number;
            /** Num Waiting */
            num_waiting: number;
            /** Project */
            project: string | null;
            /** Summary */
            summary: string;
        };
        /**
         * NotificationTargetPatch
         * @description What is left out stays as it is.
         */
        NotificationTargetPatch: {
            /** Config */
            config?: (components["schemas"]["EmailIn"] | components["schemas"]["WebhookIn"] | components["schemas"]["AppriseIn"]) | null;
            /** Is Enabled */
            is_enabled?: boolean | null;
            /** Name */
            name?: string | null;
        };
        /** NumberedRecord */
        NumberedRecord: {
            /** At Ms */
            at_ms: number;
            /** Record */
            record: components["schemas"]["MetricsRecord"] | components["schemas"]["WorkerRecord"] | components["schemas"]["GroupRecord"] | components["schemas"]["CheckpointRecord"] | components["schemas"]["EvaluationRecord"] | components["schemas"]["ModelResultRecord"] | components["schemas"]["ScheduleRecord"] | components["schemas"]["TrackedRunRecord"] | components["schemas"]["MediaRecord"] | components["schemas"]["MediaDropsRecord"] | components["schemas"]["MessageRecord"] | components["schemas"]["ProgressRecord"] | components["schemas"]["StacksRecord"] | components["schemas"]["ProfileRecord"] | components["schemas"]["ShardPlanRecord"] | components["schemas"]["ShardsRecord"] | components["schemas"]["StateRecord"];
            /** Seq */
            seq: number;
        };
        /** ObjectiveOut */
        ObjectiveOut: {
            /** Goal */
            goal: string;
            /** Metric */
            metric: string;
            /** Values */
            values: (number | ("NaN" | "Infinity" | "-Infinity") | null)[];
        };
        /** OneTimeIn */
        OneTimeIn: {
            /** Token */
            token: string;
        };
        /**
         * OrderedExperimentOut
         * @description The other end of an `after`: an experiment that this one waits for, or that waits for this
         *     one.
         */
        OrderedExperimentOut: {
            /** Id */
            id: number;
            /** Name */
            name: string | null;
            /** State */
            state: string | null;
            /**
             * When
             * @enum {string}
             */
            when: "success" | "any";
        };
        /**
         * OutputFile
         * @description One file of a work folder that did not come with the code, or was changed since.
         */
        OutputFile: {
            /**
             * Mode
             * @default 420
             */
            mode: number;
            /**
             * Mtime Ms
             * @default 0
             */
            mtime_ms: number;
            /** Parts */
            parts?: string[];
            /** Path */
            path: string;
            /**
             * Reason
             * @default
             */
            reason: string;
            /**
             * Sha256
             * @default
             */
            sha256: string;
            /**
             * Size Bytes
             * @default 0
             */
            size_bytes: number;
            /**
             * State
             * @enum {string}
             */
            state: "kept" | "growing" | "link" | "left_out";
            /**
             * Target
             * @default
             */
            target: string;
        };
        /**
         * OutputFileOut
         * @description A file that a job wrote, as it was collected last.
         */
        OutputFileOut: {
            /** Is Conflict */
            is_conflict: boolean;
            /**
             * Modified At
             * Format: date-time
             */
            modified_at: string;
            /** Node Ranks */
            node_ranks: number[];
            /** Nodes */
            nodes: string[];
            /** Num Parts */
            num_parts: number;
            /** Path */
            path: string;
            /** Reason */
            reason: string;
            /** Sha256 */
            sha256: string;
            /** Size Bytes */
            size_bytes: number;
            /**
             * State
             * @enum {string}
             */
            state: "kept" | "growing" | "link" | "left_out";
            /** Target */
            target: string;
        };
        /**
         * OutputsCleaningOut
         * @description What was deleted of the outputs of an experiment.
         */
        OutputsCleaningOut: {
            /** Experiment Id */
            experiment_id: number;
            /** Freed Bytes */
            freed_bytes: number;
            /** Num Deleted */
            num_deleted: number;
        };
        /**
         * OutputsCleaningPlanOut
         * @description What a policy keeps of the outputs of an experiment.
         */
        OutputsCleaningPlanOut: {
            /** Experiment Id */
            experiment_id: number;
            /** Freed Bytes */
            freed_bytes: number;
            /** Kept Bytes */
            kept_bytes: number;
            /** Num Dropped */
            num_dropped: number;
            /** Num Kept */
            num_kept: number;
            /** Policy */
            policy: string;
            /** Trials */
            trials: components["schemas"]["OutputsVerdictOut"][];
        };
        /**
         * OutputsExportIn
         * @description Outputs to download.
         */
        OutputsExportIn: {
            /** Part */
            part?: number | null;
            /** Paths */
            paths?: string[] | null;
        };
        /**
         * OutputsExportOut
         * @description Files to download. One output is sent as it is, several are one tar archive for each storage
         *     that has some of them, or several archives where one would be too large.
         */
        OutputsExportOut: {
            /** Exports */
            exports: components["schemas"]["ExportOut"][];
        };
        /**
         * OutputsPolicyIn
         * @description Which outputs of an experiment are deleted. At least one of the limits is given.
         */
        OutputsPolicyIn: {
            /**
             * Keep Best
             * @default 0
             */
            keep_best: number;
            /** Max Bytes */
            max_bytes?: number | null;
            /** Older Than Days */
            older_than_days?: number | null;
        };
        /**
         * OutputsPreviewIn
         * @description File to show.
         */
        OutputsPreviewIn: {
            /** Path */
            path: string;
        };
        /** OutputsReply */
        OutputsReply: {
            /** Taken */
            taken: boolean;
        };
        /**
         * OutputsRequest
         * @description `POST /agent/v1/outputs`: a manifest has been written. Sending it twice is harmless.
         */
        OutputsRequest: {
            /** Adopted */
            adopted?: components["schemas"]["AdoptedCheckpoint"][];
            /** Files */
            files: string;
            /** Folder */
            folder: string;
            /** Node Id */
            node_id: string;
            /** Session Epoch */
            session_epoch: number;
            /** Storage Id */
            storage_id: string;
            /** Storage Url */
            storage_url: string;
            summary: components["schemas"]["OutputsSummary"];
        };
        /**
         * OutputsSpec
         * @description What is kept of the files that a job writes.
         */
        OutputsSpec: {
            /**
             * Adopt
             * @default
             */
            adopt: string;
            /**
             * Every S
             * @default 120
             */
            every_s: number;
            /** Exclude */
            exclude?: string[];
            /** Include */
            include?: string[];
            /**
             * Max Bytes
             * @default 50000000000
             */
            max_bytes: number;
        };
        /**
         * OutputsSummary
         * @description State of one node's outputs; the list itself travels as `OutputsRequest.files`.
         */
        OutputsSummary: {
            /** Attempt No */
            attempt_no: number;
            /** Experiment Id */
            experiment_id: number;
            /** Is Final */
            is_final: boolean;
            /** Left Out Bytes */
            left_out_bytes: number;
            /** Node Rank */
            node_rank: number;
            /** Num Files */
            num_files: number;
            /** Num Left Out */
            num_left_out: number;
            /**
             * Problem
             * @default
             */
            problem: string;
            /** Seq */
            seq: number;
            /** Size Bytes */
            size_bytes: number;
            /** Trial Id */
            trial_id: number;
        };
        /**
         * OutputsSummaryOut
         * @description What is there of a trial's outputs.
         */
        OutputsSummaryOut: {
            /** Deleted At */
            deleted_at: string | null;
            /** Deleted Bytes */
            deleted_bytes: number;
            /** Expires At */
            expires_at: string | null;
            /** Held */
            held: string;
            keep: components["schemas"]["KeepOutputsOut"] | null;
            /** Left Out Bytes */
            left_out_bytes: number;
            /** Max Export Bytes */
            max_export_bytes: number;
            /** Nodes */
            nodes: components["schemas"]["NodeOutputsOut"][];
            /** Num Conflicts */
            num_conflicts: number;
            /** Num Files */
            num_files: number;
            /** Num Left Out */
            num_left_out: number;
            /** Size Bytes */
            size_bytes: number;
            /**
             * State
             * @enum {string}
             */
            state: "off" | "none" | "collecting" | "complete" | "incomplete" | "deleted";
            /** Trial Id */
            trial_id: number;
        };
        /**
         * OutputsVerdictOut
         * @description Whether the outputs of a trial stay.
         */
        OutputsVerdictOut: {
            /**
             * Collected At
             * Format: date-time
             */
            collected_at: string;
            /** Is Kept */
            is_kept: boolean;
            /** Num Files */
            num_files: number;
            /** Reason */
            reason: string;
            /** Size Bytes */
            size_bytes: number;
            /** Trial Id */
            trial_id: number;
            /** Trial No */
            trial_no: number;
            /** Value */
            value: number | ("NaN" | "Infinity" | "-Infinity") | null;
        };
        /** Page[AuditOut] */
        Page_AuditOut_: {
            /** Items */
            items: components["schemas"]["AuditOut"][];
            /** Next */
            next: string | null;
        };
        /** Page[CheckpointOut] */
        Page_CheckpointOut_: {
            /** Items */
            items: components["schemas"]["CheckpointOut"][];
            /** Next */
            next: string | null;
        };
        /** Page[ChildOut] */
        Page_ChildOut_: {
            /** Items */
            items: components["schemas"]["ChildOut"][];
            /** Next */
            next: string | null;
        };
        /** Page[DeliveryOut] */
        Page_DeliveryOut_: {
            /** Items */
            items: components["schemas"]["DeliveryOut"][];
            /** Next */
            next: string | null;
        };
        /** Page[DiagnosisOut] */
        Page_DiagnosisOut_: {
            /** Items */
            items: components["schemas"]["DiagnosisOut"][];
            /** Next */
            next: string | null;
        };
        /** Page[EventOut] */
        Page_EventOut_: {
            /** Items */
            items: components["schemas"]["EventOut"][];
            /** Next */
            next: string | null;
        };
        /** Page[ExperimentOut] */
        Page_ExperimentOut_: {
            /** Items */
            items: components["schemas"]["ExperimentOut"][];
            /** Next */
            next: string | null;
        };
        /** Page[ExportOut] */
        Page_ExportOut_: {
            /** Items */
            items: components["schemas"]["ExportOut"][];
            /** Next */
            next: string | null;
        };
        /** Page[FileDeletionOut] */
        Page_FileDeletionOut_: {
            /** Items */
            items: components["schemas"]["FileDeletionOut"][];
            /** Next */
            next: string | null;
        };
        /** Page[InboxEntryOut] */
        Page_InboxEntryOut_: {
            /** Items */
            items: components["schemas"]["InboxEntryOut"][];
            /** Next */
            next: string | null;
        };
        /** Page[JoinTokenOut] */
        Page_JoinTokenOut_: {
            /** Items */
            items: components["schemas"]["JoinTokenOut"][];
            /** Next */
            next: string | null;
        };
        /** Page[LogStreamOut] */
        Page_LogStreamOut_: {
            /** Items */
            items: components["schemas"]["LogStreamOut"][];
            /** Next */
            next: string | null;
        };
        /** Page[MediaItemOut] */
        Page_MediaItemOut_: {
            /** Items */
            items: components["schemas"]["MediaItemOut"][];
            /** Next */
            next: string | null;
        };
        /** Page[ModelAliasMoveOut] */
        Page_ModelAliasMoveOut_: {
            /** Items */
            items: components["schemas"]["ModelAliasMoveOut"][];
            /** Next */
            next: string | null;
        };
        /** Page[ModelExportJobOut] */
        Page_ModelExportJobOut_: {
            /** Items */
            items: components["schemas"]["ModelExportJobOut"][];
            /** Next */
            next: string | null;
        };
        /** Page[ModelItem] */
        Page_ModelItem_: {
            /** Items */
            items: components["schemas"]["ModelItem"][];
            /** Next */
            next: string | null;
        };
        /** Page[ModelPromotionOut] */
        Page_ModelPromotionOut_: {
            /** Items */
            items: components["schemas"]["ModelPromotionOut"][];
            /** Next */
            next: string | null;
        };
        /** Page[ModelUseOut] */
        Page_ModelUseOut_: {
            /** Items */
            items: components["schemas"]["ModelUseOut"][];
            /** Next */
            next: string | null;
        };
        /** Page[ModelVersionItem] */
        Page_ModelVersionItem_: {
            /** Items */
            items: components["schemas"]["ModelVersionItem"][];
            /** Next */
            next: string | null;
        };
        /** Page[NodeAllocationOut] */
        Page_NodeAllocationOut_: {
            /** Items */
            items: components["schemas"]["NodeAllocationOut"][];
            /** Next */
            next: string | null;
        };
        /** Page[NodeOut] */
        Page_NodeOut_: {
            /** Items */
            items: components["schemas"]["NodeOut"][];
            /** Next */
            next: string | null;
        };
        /** Page[NotificationRuleOut] */
        Page_NotificationRuleOut_: {
            /** Items */
            items: components["schemas"]["NotificationRuleOut"][];
            /** Next */
            next: string | null;
        };
        /** Page[NotificationTargetOut] */
        Page_NotificationTargetOut_: {
            /** Items */
            items: components["schemas"]["NotificationTargetOut"][];
            /** Next */
            next: string | null;
        };
        /** Page[OutputFileOut] */
        Page_OutputFileOut_: {
            /** Items */
            items: components["schemas"]["OutputFileOut"][];
            /** Next */
            next: string | null;
        };
        /** Page[PanelOut] */
        Page_PanelOut_: {
            /** Items */
            items: components["schemas"]["PanelOut"][];
            /** Next */
            next: string | null;
        };
        /** Page[PilotOut] */
        Page_PilotOut_: {
            /** Items */
            items: components["schemas"]["PilotOut"][];
            /** Next */
            next: string | null;
        };
        /** Page[PoolOut] */
        Page_PoolOut_: {
            /** Items */
            items: components["schemas"]["PoolOut"][];
            /** Next */
            next: string | null;
        };
        /** Page[PreflightOut] */
        Page_PreflightOut_: {
            /** Items */
            items: components["schemas"]["PreflightOut"][];
            /** Next */
            next: string | null;
        };
        /** Page[ProcessGroupOut] */
        Page_ProcessGroupOut_: {
            /** Items */
            items: components["schemas"]["ProcessGroupOut"][];
            /** Next */
            next: string | null;
        };
        /** Page[ProfileOut] */
        Page_ProfileOut_: {
            /** Items */
            items: components["schemas"]["ProfileOut"][];
            /** Next */
            next: string | null;
        };
        /** Page[ProjectOut] */
        Page_ProjectOut_: {
            /** Items */
            items: components["schemas"]["ProjectOut"][];
            /** Next */
            next: string | null;
        };
        /** Page[QueueItem] */
        Page_QueueItem_: {
            /** Items */
            items: components["schemas"]["QueueItem"][];
            /** Next */
            next: string | null;
        };
        /** Page[SavedViewOut] */
        Page_SavedViewOut_: {
            /** Items */
            items: components["schemas"]["SavedViewOut"][];
            /** Next */
            next: string | null;
        };
        /** Page[ScalingReportOut] */
        Page_ScalingReportOut_: {
            /** Items */
            items: components["schemas"]["ScalingReportOut"][];
            /** Next */
            next: string | null;
        };
        /** Page[SecretOut] */
        Page_SecretOut_: {
            /** Items */
            items: components["schemas"]["SecretOut"][];
            /** Next */
            next: string | null;
        };
        /** Page[TokenOut] */
        Page_TokenOut_: {
            /** Items */
            items: components["schemas"]["TokenOut"][];
            /** Next */
            next: string | null;
        };
        /** Page[TrackedRunOut] */
        Page_TrackedRunOut_: {
            /** Items */
            items: components["schemas"]["TrackedRunOut"][];
            /** Next */
            next: string | null;
        };
        /** Page[TrialOut] */
        Page_TrialOut_: {
            /** Items */
            items: components["schemas"]["TrialOut"][];
            /** Next */
            next: string | null;
        };
        /** Page[UserOut] */
        Page_UserOut_: {
            /** Items */
            items: components["schemas"]["UserOut"][];
            /** Next */
            next: string | null;
        };
        /** Page[WorkerOut] */
        Page_WorkerOut_: {
            /** Items */
            items: components["schemas"]["WorkerOut"][];
            /** Next */
            next: string | null;
        };
        /**
         * PanelIn
         * @description What a panel shows, and where: on one experiment or on every experiment of a project.
         */
        PanelIn: {
            /** Experiment Id */
            experiment_id?: number | null;
            /**
             * Expressions
             * @default []
             */
            expressions: string[];
            /**
             * Kind
             * @enum {string}
             */
            kind: "line" | "bar" | "scatter" | "histogram" | "table" | "markdown" | "images";
            /** Project */
            project?: string | null;
            /**
             * Text
             * @default
             */
            text: string;
            /** Title */
            title: string;
            /** X */
            x?: string | null;
        };
        /** PanelOut */
        PanelOut: {
            /**
             * Changed At
             * Format: date-time
             */
            changed_at: string;
            /** Experiment Id */
            experiment_id: number | null;
            /** Expressions */
            expressions: string[];
            /** Id */
            id: number;
            /**
             * Kind
             * @enum {string}
             */
            kind: "line" | "bar" | "scatter" | "histogram" | "table" | "markdown" | "images";
            /** May Change */
            may_change: boolean;
            /** Owner */
            owner: string | null;
            /** Position */
            position: number;
            /** Project */
            project: string;
            /** Text */
            text: string;
            /** Title */
            title: string;
            /** X */
            x: string | null;
        };
        /**
         * PanelPatch
         * @description What is left out stays as it is.
         */
        PanelPatch: {
            /** Expressions */
            expressions?: string[] | null;
            /** Kind */
            kind?: ("line" | "bar" | "scatter" | "histogram" | "table" | "markdown" | "images") | null;
            /** Position */
            position?: number | null;
            /** Text */
            text?: string | null;
            /** Title */
            title?: string | null;
            /** X */
            x?: string | null;
        };
        /** ParameterOut */
        ParameterOut: {
            /** Choices */
            choices: string[];
            /**
             * Kind
             * @enum {string}
             */
            kind: "number" | "choice";
            /** Log */
            log: boolean;
            /** Name */
            name: string;
        };
        /**
         * ParentOut
         * @description Experiment and checkpoint that an experiment was forked from.
         */
        ParentOut: {
            /** Checkpoint Experiment Id */
            checkpoint_experiment_id: number | null;
            /** Checkpoint Id */
            checkpoint_id: number | null;
            /** Exists */
            exists: boolean;
            /** Experiment Id */
            experiment_id: number;
            /** Experiment Name */
            experiment_name: string;
            /** Load */
            load: ("all" | "weights") | null;
            /** Step */
            step: number | null;
            /** Trial Id */
            trial_id: number | null;
            /** Trial No */
            trial_no: number | null;
        };
        /**
         * PartOut
         * @description A part of a message as code and parameters, to translate its English text.
         */
        PartOut: {
            /** Code */
            code: string;
            /** Params */
            params: {
                [key: string]: number | string;
            };
        };
        /** PasswordIn */
        PasswordIn: {
            /** Current Password */
            current_password?: string | null;
            /** New Password */
            new_password: string;
            /**
             * Revoke Tokens
             * @default true
             */
            revoke_tokens: boolean;
        };
        /** PerformanceOut */
        PerformanceOut: {
            /** Attempt No */
            attempt_no: number;
            bottleneck: components["schemas"]["BottleneckOut"] | null;
            /** Bucket Steps */
            bucket_steps: number;
            culprit: components["schemas"]["CulpritOut"] | null;
            /** First Step */
            first_step: number | null;
            /** Imbalance */
            imbalance: number | null;
            /** Last Step */
            last_step: number | null;
            /** Num Ranks */
            num_ranks: number;
            /** Ranks */
            ranks: components["schemas"]["RankStepsOut"][];
            /** Stages */
            stages: components["schemas"]["StageOut"][];
            /** Traffic */
            traffic: components["schemas"]["KindTrafficOut"][];
            /** Trial Id */
            trial_id: number;
        };
        /**
         * PilotFacts
         * @description What an agent that runs for a limited time says of itself, such as one inside a batch job.
         */
        PilotFacts: {
            /** Ends At Ms */
            ends_at_ms?: number | null;
            /**
             * Provider Ref
             * @default
             */
            provider_ref: string;
        };
        /** PilotOut */
        PilotOut: {
            /**
             * Asked At
             * Format: date-time
             */
            asked_at: string;
            /** Attempt No */
            attempt_no: number | null;
            /** Ended At */
            ended_at: string | null;
            /** Expected At */
            expected_at: string | null;
            /** Has Failed */
            has_failed: boolean;
            /** Id */
            id: string;
            /** Reason */
            reason: string;
            /** Ref */
            ref: string;
            /**
             * Since
             * Format: date-time
             */
            since: string;
            /** Slots */
            slots: number;
            /** Started At */
            started_at: string | null;
            /** State */
            state: string;
            /** Trial Id */
            trial_id: number | null;
        };
        /**
         * PipelineLaneOut
         * @description Operations of one worker, in order of time.
         */
        PipelineLaneOut: {
            /** Error Ms */
            error_ms: number | null;
            /** Num Left Out */
            num_left_out: number;
            /** Operations */
            operations: components["schemas"]["PipelineOperationOut"][];
            /** Rank */
            rank: number;
        };
        /** PipelineOperationOut */
        PipelineOperationOut: {
            /** End Ms */
            end_ms: number;
            /** Kind */
            kind: string;
            /** Micro Batch */
            micro_batch: number;
            /** Stage */
            stage: number;
            /** Start Ms */
            start_ms: number;
        };
        /** PipelineStepOut */
        PipelineStepOut: {
            /** At */
            at: string | null;
            /** Attempt No */
            attempt_no: number;
            /** Idle Share */
            idle_share: number | null;
            /** Lanes */
            lanes: components["schemas"]["PipelineLaneOut"][];
            /** Num Pipelines */
            num_pipelines: number;
            /** Pipeline */
            pipeline: number;
            /** Step */
            step: number | null;
            /** Total Ms */
            total_ms: number | null;
            /** Trial Id */
            trial_id: number;
        };
        /** PlanIn */
        PlanIn: {
            /** Blob Sha256 */
            blob_sha256?: string | null;
            /** Document */
            document: string;
            /**
             * Overrides
             * @default []
             */
            overrides: string[];
            /** Slot Memory Bytes */
            slot_memory_bytes?: number | null;
        };
        /** PlanOut */
        PlanOut: {
            /** Flops Per Sample */
            flops_per_sample: number | null;
            /** Global Batch */
            global_batch: number | null;
            /** Is Pending */
            is_pending: boolean;
            /** Known */
            known: boolean;
            /** Num Params */
            num_params: number | null;
            /** Reason */
            reason: string;
            /**
             * Reason Parts
             * @default []
             */
            reason_parts: components["schemas"]["PartOut"][];
            /** Recommendation */
            recommendation: string;
            /** Recommended */
            recommended: string | null;
            /** Recommended Batch Size */
            recommended_batch_size: number | null;
            /** Slot Memory Bytes */
            slot_memory_bytes: number | null;
            /** Slot Memory Source */
            slot_memory_source: string;
            /** Slots */
            slots: number;
            /** Strategies */
            strategies: components["schemas"]["PlannedStrategyOut"][];
            /** Time Source */
            time_source: string;
        };
        /**
         * PlanRemarkOut
         * @description A large difference between expected and measured values.
         */
        PlanRemarkOut: {
            /**
             * About
             * @enum {string}
             */
            about: "memory" | "bytes" | "step";
            /**
             * Parts
             * @default []
             */
            parts: components["schemas"]["PartOut"][];
            /** Ratio */
            ratio: number;
            /** Text */
            text: string;
        };
        /** PlannedNode */
        PlannedNode: {
            /** Command */
            command: string[];
            /** Node Name */
            node_name: string;
            /** Num Slots */
            num_slots: number;
        };
        /** PlannedStrategyOut */
        PlannedStrategyOut: {
            /** Fits */
            fits: boolean | null;
            /** Is Chosen */
            is_chosen: boolean;
            /** Kind */
            kind: string;
            /** Link Bytes */
            link_bytes: number;
            memory: components["schemas"]["MemoryOut"] | null;
            /** Problem */
            problem: string;
            step_ms: components["schemas"]["ScalingEstimateOut"] | null;
            /** Traffic */
            traffic: components["schemas"]["PlannedTrafficOut"][];
        };
        /**
         * PlannedTrafficOut
         * @description Traffic per step of the worker that sends most.
         */
        PlannedTrafficOut: {
            /** Count */
            count: number;
            /** Group */
            group: string;
            /** Kind */
            kind: string;
            /** Num Bytes */
            num_bytes: number;
            /** Size */
            size: number;
        };
        /** PlannedTrial */
        PlannedTrial: {
            /** Hparams */
            hparams: {
                [key: string]: unknown;
            };
        };
        /**
         * PointOut
         * @description A point that was enqueued, and the trial that tries it.
         */
        PointOut: {
            /** Metric */
            metric: number | ("NaN" | "Infinity" | "-Infinity") | null;
            /** Point */
            point: string;
            /** Reason */
            reason: string;
            /** State */
            state: string | null;
            /** Trial Id */
            trial_id: number | null;
            /** Trial No */
            trial_no: number | null;
        };
        /**
         * PoolIn
         * @description Changes to a pool. A field that is left out stays as it is.
         */
        PoolIn: {
            /** Allowed Images */
            allowed_images?: string[] | null;
            /** Min Isolation */
            min_isolation?: ("none" | "user" | "sandbox") | null;
            /** Price Per Slot Hour */
            price_per_slot_hour?: number | null;
            /** Requires Containers */
            requires_containers?: boolean | null;
        };
        /** PoolOut */
        PoolOut: {
            /** Allowed Images */
            allowed_images: string[];
            /** Changed At */
            changed_at: string | null;
            /** Currency */
            currency: string;
            /**
             * Min Isolation
             * @enum {string}
             */
            min_isolation: "none" | "user" | "sandbox";
            /** Name */
            name: string;
            /** Num Nodes */
            num_nodes: number;
            /** Num Nodes Online */
            num_nodes_online: number;
            /** Num Nodes Too Weak */
            num_nodes_too_weak: number;
            /** Num Slots */
            num_slots: {
                [key: string]: number;
            };
            /** Num Slots Used */
            num_slots_used: number;
            /** Price Per Slot Hour */
            price_per_slot_hour: number;
            /** Provider */
            provider: string | null;
            /** Requires Containers */
            requires_containers: boolean;
        };
        /**
         * PoolUtilizationOut
         * @description Slots of one type in one pool.
         */
        PoolUtilizationOut: {
            /** Held */
            held: (number | null)[];
            /** Num Slots */
            num_slots: number;
            /** Num Slots Used */
            num_slots_used: number;
            /** Pool */
            pool: string;
            /** Slot Type */
            slot_type: string;
        };
        /**
         * Preflight
         * @description A test of this node together with others. `stage` is to be done now, once; a preflight that
         *     is not wanted any more is ended.
         */
        Preflight: {
            /** Id */
            id: number;
            /** Peers */
            peers: components["schemas"]["PreflightPeer"][];
            /** Python */
            python: string | null;
            /** Rank */
            rank: number;
            /** Slots */
            slots: number[];
            /**
             * Stage
             * @enum {string}
             */
            stage: "listen" | "connect" | "reduce";
            store?: components["schemas"]["PreflightStore"] | null;
            /** Token */
            token: string;
        };
        /** PreflightIn */
        PreflightIn: {
            /** Nodes */
            nodes: string[];
        };
        /** PreflightLink */
        PreflightLink: {
            /** Allreduce Ms */
            allreduce_ms: number | null;
            /** From Node */
            from_node: string;
            /** Message */
            message: string;
            /** Round Trip Ms */
            round_trip_ms: number | null;
            /** To Node */
            to_node: string;
        };
        /** PreflightNode */
        PreflightNode: {
            /** Address */
            address: string;
            /** Node Id */
            node_id: string;
            /** Node Name */
            node_name: string;
            /** Problems */
            problems: string[];
            /** Rank */
            rank: number;
            /** Torch Version */
            torch_version: string;
        };
        /** PreflightOut */
        PreflightOut: {
            /** Allreduce Ms */
            allreduce_ms: number | null;
            /** Attempt No */
            attempt_no: number | null;
            /**
             * Created At
             * Format: date-time
             */
            created_at: string;
            /** Ended At */
            ended_at: string | null;
            /** Id */
            id: number;
            /** Links */
            links: components["schemas"]["PreflightLink"][];
            /** Message */
            message: string;
            /** Nodes */
            nodes: components["schemas"]["PreflightNode"][];
            /** Requested By */
            requested_by: string;
            /**
             * Stage
             * @enum {string}
             */
            stage: "listen" | "connect" | "reduce";
            /**
             * State
             * @enum {string}
             */
            state: "running" | "passed" | "failed";
            /** Trial Id */
            trial_id: number | null;
        };
        /** PreflightPeer */
        PreflightPeer: {
            /** Host */
            host: string;
            /** Node Name */
            node_name: string;
            /** Port */
            port: number;
            /** Rank */
            rank: number;
        };
        /** PreflightReply */
        PreflightReply: {
            /** Taken */
            taken: boolean;
        };
        /**
         * PreflightReport
         * @description Result of a stage on this node.
         */
        PreflightReport: {
            /**
             * Host
             * @default
             */
            host: string;
            /** Id */
            id: number;
            /** Links */
            links?: components["schemas"]["LinkReport"][];
            /**
             * Port
             * @default 0
             */
            port: number;
            /** Problems */
            problems?: string[];
            /** Reduce Ms */
            reduce_ms?: number | null;
            /**
             * Stage
             * @enum {string}
             */
            stage: "listen" | "connect" | "reduce";
            /** Store Port */
            store_port?: number | null;
            /**
             * Torch Version
             * @default
             */
            torch_version: string;
        };
        /**
         * PreflightRequest
         * @description `POST /agent/v1/preflights`.
         */
        PreflightRequest: {
            /** Node Id */
            node_id: string;
            report: components["schemas"]["PreflightReport"];
            /** Session Epoch */
            session_epoch: number;
        };
        /**
         * PreflightStore
         * @description Store on rank 0 in which the processes of an all-reduce find each other.
         */
        PreflightStore: {
            /** Host */
            host: string;
            /** Port */
            port: number;
        };
        /**
         * PreviewOut
         * @description Result of the checks of a submission; nothing is stored.
         */
        PreviewOut: {
            /** Concurrent */
            concurrent: number | null;
            /** Concurrent From */
            concurrent_from: string;
            /** Config */
            config: {
                [key: string]: unknown;
            } | null;
            /** Copied */
            copied: string[];
            /** Errors */
            errors: components["schemas"]["FieldError"][];
            /** Estimated Start At */
            estimated_start_at: string | null;
            /** Fit Parts */
            fit_parts: components["schemas"]["PartOut"][];
            /** Fit Reason */
            fit_reason: string;
            /** Fits Now */
            fits_now: boolean;
            /** Is Impossible */
            is_impossible: boolean;
            /** Num Trials */
            num_trials: number | null;
            /** Num Trials Is Upper Bound */
            num_trials_is_upper_bound: boolean;
            /** Origins */
            origins: {
                [key: string]: string;
            };
            /** Perturbed */
            perturbed: string[];
            /** Plan */
            plan: components["schemas"]["PlannedNode"][];
            /** Position */
            position: number | null;
            /** Preempts */
            preempts: number[];
            /** Rungs */
            rungs: {
                [key: string]: unknown;
            }[];
            /** Sampled Trials */
            sampled_trials: components["schemas"]["PlannedTrial"][];
            search_cost: components["schemas"]["SearchCostOut"] | null;
            /** Valid */
            valid: boolean;
            /** Warnings */
            warnings: components["schemas"]["FieldError"][];
        };
        /**
         * ProbeOut
         * @description A trial that runs as a probe, or a planned one.
         */
        ProbeOut: {
            /** Probe */
            probe: string;
            /** Reason */
            reason: string;
            /** Repeat */
            repeat: number;
            /** State */
            state: string | null;
            /** Trial Id */
            trial_id: number | null;
        };
        /**
         * Problem
         * @description Every error of the API.
         */
        Problem: {
            error: components["schemas"]["ProblemBody"];
        };
        /** ProblemBody */
        ProblemBody: {
            /** Code */
            code: string;
            /**
             * Fields
             * @default []
             */
            fields: components["schemas"]["FieldError"][];
            /** Hint */
            hint?: string | null;
            /** Message */
            message: string;
            /** Request Id */
            request_id?: string | null;
        };
        /** ProcessGroupOut */
        ProcessGroupOut: {
            /** Backend */
            backend: string;
            /** Kind */
            kind: string;
            /** Name */
            name: string;
            /** Ranks */
            ranks: number[];
            /** Size */
            size: number;
        };
        /**
         * ProducedVersionOut
         * @description A version that an experiment has produced which read another one.
         */
        ProducedVersionOut: {
            /** Experiment Id */
            experiment_id: number;
            /** Model */
            model: string;
            /** Version */
            version: number;
        };
        /** ProfileIn */
        ProfileIn: {
            /**
             * Ranks
             * @description Global ranks, each once.
             * @default [
             *       0
             *     ]
             */
            ranks: number[];
            /**
             * Steps
             * @description Optimizer steps, from the next one on.
             * @default 5
             */
            steps: number;
        };
        /**
         * ProfileOrder
         * @description A requested window of torch's profiler.
         */
        ProfileOrder: {
            /** No */
            no: number;
            /** Num Steps */
            num_steps: number;
            /** Ranks */
            ranks: number[];
        };
        /** ProfileOut */
        ProfileOut: {
            /**
             * Asked At
             * Format: date-time
             */
            asked_at: string;
            /** Attempt No */
            attempt_no: number;
            /** Is Complete */
            is_complete: boolean;
            /** No */
            no: number;
            /** Num Steps */
            num_steps: number;
            /** Ranks */
            ranks: components["schemas"]["ProfiledRankOut"][];
            /** Requested By */
            requested_by: string;
            /** Trial Id */
            trial_id: number;
        };
        /**
         * ProfileRecord
         * @description A piece of the trace of one rank, or the reason why there is none. Pieces come in order.
         */
        ProfileRecord: {
            /**
             * Data
             * @default
             */
            data: string;
            /** First Step */
            first_step?: number | null;
            /**
             * Index
             * @default 0
             */
            index: number;
            /** Last Step */
            last_step?: number | null;
            /** Local Rank */
            local_rank: number;
            /** No */
            no: number;
            /**
             * Problem
             * @default
             */
            problem: string;
            /** Rank */
            rank: number;
            /**
             * Size Bytes
             * @default 0
             */
            size_bytes: number;
            /**
             * Type
             * @default profile
             * @constant
             */
            type: "profile";
        };
        /** ProfiledRankOut */
        ProfiledRankOut: {
            /** Ended At */
            ended_at: string | null;
            /** First Step */
            first_step: number | null;
            /** Last Step */
            last_step: number | null;
            /** Node Name */
            node_name: string;
            /** Problem */
            problem: string;
            /** Rank */
            rank: number;
            /** Size Bytes */
            size_bytes: number;
            /**
             * State
             * @enum {string}
             */
            state: "waiting" | "ready" | "failed";
        };
        /** ProgressOut */
        ProgressOut: {
            /** Attempt No */
            attempt_no: number;
            /** Blamed */
            blamed: components["schemas"]["BlameOut"][];
            /** Ranks */
            ranks: components["schemas"]["RankProgressOut"][];
            /** Reason */
            reason: string;
            /**
             * State
             * @enum {string}
             */
            state: "moving" | "still" | "unknown" | "over";
            /** Still S */
            still_s: number | null;
            /** Trial Id */
            trial_id: number;
        };
        /**
         * ProgressRecord
         * @description Progress of the workers of an allocation, reported when it has changed.
         */
        ProgressRecord: {
            /**
             * Type
             * @default progress
             * @constant
             */
            type: "progress";
            /** Workers */
            workers: components["schemas"]["WorkerProgress"][];
        };
        /** ProjectIn */
        ProjectIn: {
            budget?: components["schemas"]["Budget"] | null;
            /** Name */
            name: string;
            /**
             * Quotas
             * @default []
             */
            quotas: components["schemas"]["QuotaIn"][];
            /**
             * Weight
             * @default 1
             */
            weight: number;
        };
        /** ProjectOut */
        ProjectOut: {
            budget: components["schemas"]["BudgetOut"] | null;
            /**
             * Counted Since
             * Format: date-time
             */
            counted_since: string;
            /**
             * Created At
             * Format: date-time
             */
            created_at: string;
            /** Exhausted Parts */
            exhausted_parts: components["schemas"]["PartOut"][];
            /** Exhausted Reason */
            exhausted_reason: string;
            /** Id */
            id: number;
            /** Name */
            name: string;
            /** Num Experiments */
            num_experiments: number;
            /** Num Experiments Active */
            num_experiments_active: number;
            /** Quotas */
            quotas: components["schemas"]["QuotaOut"][];
            spending: components["schemas"]["SpendingOut"];
            /** Weight */
            weight: number;
        };
        /**
         * ProjectPatch
         * @description Changes to a project. A field that is left out stays as it is.
         */
        ProjectPatch: {
            budget?: components["schemas"]["Budget"] | null;
            /** Quotas */
            quotas?: components["schemas"]["QuotaIn"][] | null;
            /**
             * Restart Count
             * @default false
             */
            restart_count: boolean;
            /** Weight */
            weight?: number | null;
        };
        /**
         * PromotionIn
         * @description A rule: the best checkpoint of an experiment becomes an alias when the experiment has ended.
         */
        PromotionIn: {
            /** Alias */
            alias: string;
            /** Experiment Id */
            experiment_id: number;
            /** Goal */
            goal?: ("min" | "max") | null;
            /** Metric */
            metric?: string | null;
        };
        /**
         * ProviderIn
         * @description What submits pilots for a pool. It replaces what was set before; pilots that run stay.
         */
        ProviderIn: {
            /**
             * Exclusive
             * @default false
             */
            exclusive: boolean;
            /**
             * Idle S
             * @default 600
             */
            idle_s: number;
            /**
             * Kind
             * @enum {string}
             */
            kind: "slurm" | "ray" | "kubernetes";
            /** Max Cost */
            max_cost?: number | null;
            /** Max Pilots */
            max_pilots: number;
            /** Max Slot Hours */
            max_slot_hours?: number | null;
            /**
             * Min Pilots
             * @default 0
             */
            min_pilots: number;
            /** Options */
            options: {
                [key: string]: string;
            };
            /**
             * Restart Count
             * @default false
             */
            restart_count: boolean;
            /**
             * Slot Type
             * @default cpu
             * @enum {string}
             */
            slot_type: "cpu" | "cuda";
            /** Slots */
            slots: number;
            /** Walltime S */
            walltime_s: number;
        };
        /** ProviderOut */
        ProviderOut: {
            /**
             * Changed At
             * Format: date-time
             */
            changed_at: string;
            /** Counted Since */
            counted_since: string | null;
            /** Currency */
            currency: string;
            /** Exclusive */
            exclusive: boolean;
            /** Failures */
            failures: number;
            /** Idle S */
            idle_s: number;
            /** Kind */
            kind: string;
            /** Listed At */
            listed_at: string | null;
            /** Max Cost */
            max_cost: number | null;
            /** Max Pilots */
            max_pilots: number;
            /** Max Slot Hours */
            max_slot_hours: number | null;
            /** Min Pilots */
            min_pilots: number;
            /** Name */
            name: string;
            /** Not Before */
            not_before: string | null;
            /** Notice */
            notice: string;
            /** Num Failed */
            num_failed: number;
            /** Num Pilots */
            num_pilots: {
                [key: string]: number;
            };
            /** Options */
            options: {
                [key: string]: string;
            };
            /** Pool */
            pool: string;
            /** Price Per Slot Hour */
            price_per_slot_hour: number;
            /** Problem */
            problem: string;
            /** Reserved Slot Hours */
            reserved_slot_hours: number;
            /** Slot Type */
            slot_type: string;
            /** Slots */
            slots: number;
            /** Spent Cost */
            spent_cost: number;
            /** Spent Slot Hours */
            spent_slot_hours: number;
            /** Walltime S */
            walltime_s: number;
        };
        /** QueueItem */
        QueueItem: {
            /** Estimated Start At */
            estimated_start_at: string | null;
            /** Experiment Id */
            experiment_id: number;
            /** Experiment Name */
            experiment_name: string;
            /** Is Impossible */
            is_impossible: boolean;
            /** Min Slots */
            min_slots: number;
            /** Num Slots */
            num_slots: number;
            /** Owner */
            owner: string | null;
            /** Pending Parts */
            pending_parts: components["schemas"]["PartOut"][];
            /** Pending Reason */
            pending_reason: string;
            /** Pool */
            pool: string;
            /** Position */
            position: number | null;
            /** Preemptible */
            preemptible: boolean;
            /** Priority */
            priority: number;
            /** Project */
            project: string;
            /**
             * Queued At
             * Format: date-time
             */
            queued_at: string;
            /** Slot Type */
            slot_type: string;
            /** State */
            state: string;
            /** Trial Id */
            trial_id: number;
            /** Trial No */
            trial_no: number;
            /**
             * Waiting Since
             * Format: date-time
             */
            waiting_since: string;
        };
        /**
         * QueueMove
         * @description Which entry to move, and where: one of `to`, `before` or `after`.
         */
        QueueMove: {
            after?: components["schemas"]["QueueRef"] | null;
            before?: components["schemas"]["QueueRef"] | null;
            /** Experiment Id */
            experiment_id?: number | null;
            /** To */
            to?: ("front" | "back") | null;
            /** Trial Id */
            trial_id?: number | null;
        };
        /** QueueMoved */
        QueueMoved: {
            first: components["schemas"]["QueueItem"] | null;
            /** Num Trials */
            num_trials: number;
        };
        /**
         * QueueRef
         * @description A waiting trial, or all waiting trials of an experiment.
         */
        QueueRef: {
            /** Experiment Id */
            experiment_id?: number | null;
            /** Trial Id */
            trial_id?: number | null;
        };
        /** QuotaIn */
        QuotaIn: {
            /** Pool */
            pool: string;
            /**
             * Slot Type
             * @enum {string}
             */
            slot_type: "cpu" | "cuda";
            /** Slots */
            slots: number;
        };
        /** QuotaOut */
        QuotaOut: {
            /** Pool */
            pool: string;
            /** Slot Type */
            slot_type: string;
            /** Slots */
            slots: number;
            /** Slots Held */
            slots_held: number;
        };
        /** RankProgressOut */
        RankProgressOut: {
            /** Groups */
            groups: components["schemas"]["GroupCountOut"][];
            /** Moved At */
            moved_at: string | null;
            /** Node Name */
            node_name: string;
            /** Phase */
            phase: string;
            /**
             * Process
             * @enum {string}
             */
            process: "" | "runs" | "sleeps" | "blocked" | "stopped";
            /** Rank */
            rank: number;
            /** Reports */
            reports: boolean;
            /** Step */
            step: number | null;
            /** Waits For */
            waits_for: number | null;
        };
        /** RankStacksOut */
        RankStacksOut: {
            /**
             * At
             * Format: date-time
             */
            at: string;
            /** Is Cut */
            is_cut: boolean;
            /** Node Name */
            node_name: string;
            /** Problem */
            problem: string;
            /** Rank */
            rank: number;
            /** Text */
            text: string;
        };
        /**
         * RankStepsOut
         * @description Means over the measured rows of one rank.
         */
        RankStepsOut: {
            /** Held Up Ms */
            held_up_ms: number | null;
            /** Interference Ms */
            interference_ms: number | null;
            /** Num Rows */
            num_rows: number;
            /** Overlapped Ms */
            overlapped_ms: number | null;
            /** Parts */
            parts: {
                [key: string]: number;
            };
            /** Rank */
            rank: number;
            /** Stage */
            stage: number | null;
            /** Step Ms */
            step_ms: number;
            /** Wait Ms */
            wait_ms: number | null;
        };
        /**
         * Ready
         * @description Readiness of an API server. Only the database is required: without it, no request can be
         *     answered.
         */
        Ready: {
            /**
             * Controller
             * @enum {string}
             */
            controller: "ok" | "failing" | "absent" | "unknown";
            /**
             * Database
             * @enum {string}
             */
            database: "ok" | "unreachable" | "not_migrated" | "schema_mismatch" | "disk_full";
            /** Failing Loop */
            failing_loop: string | null;
            /**
             * Redis
             * @enum {string}
             */
            redis: "ok" | "unreachable" | "not_configured";
            /**
             * Status
             * @enum {string}
             */
            status: "ready" | "not_ready";
            /**
             * Worker
             * @enum {string}
             */
            worker: "ok" | "absent" | "unknown";
        };
        /** RecordsReply */
        RecordsReply: {
            /** Acked Seq */
            acked_seq: number;
            /**
             * Superseded
             * @default false
             */
            superseded: boolean;
        };
        /**
         * RecordsRequest
         * @description `POST /agent/v1/allocations/{allocation_id}/records`. At most 1,000 records, 4 MiB.
         */
        RecordsRequest: {
            /** Attempt No */
            attempt_no: number;
            /** Node Id */
            node_id: string;
            /** Records */
            records: components["schemas"]["NumberedRecord"][];
            /** Session Epoch */
            session_epoch: number;
        };
        /** RegisterReply */
        RegisterReply: {
            /** Adopt */
            adopt: components["schemas"]["AckState"][];
            /** Credential */
            credential: string | null;
            /** Forget */
            forget: string[];
            /** Heartbeat S */
            heartbeat_s: number;
            /** Lease S */
            lease_s: number;
            /** Node Id */
            node_id: string;
            /** Session Epoch */
            session_epoch: number;
        };
        /** RegisterRequest */
        RegisterRequest: {
            /** Boot Id */
            boot_id: string;
            /** Instance Id */
            instance_id: string;
            inventory: components["schemas"]["Inventory"];
            /**
             * Join Id
             * @default
             */
            join_id: string;
            /** Labels */
            labels: {
                [key: string]: string;
            };
            /** Name */
            name: string;
            /**
             * Number
             * @default 0
             */
            number: number;
            pilot?: components["schemas"]["PilotFacts"] | null;
            /** Pool */
            pool: string;
            /** Protocol Version */
            protocol_version: number;
            /** Running */
            running?: components["schemas"]["RunningAllocation"][];
        };
        /**
         * Rendezvous
         * @description Address on which rank 0 listens. Known once rank 0's node is READY.
         */
        Rendezvous: {
            /** Host */
            host: string;
            /** Port */
            port: number;
            /** Run Id */
            run_id: string;
        };
        /** ReproductionOut */
        ReproductionOut: {
            /** Code Sha256 */
            code_sha256: string | null;
            /** Code Size Bytes */
            code_size_bytes: number | null;
            code_version: components["schemas"]["CodeVersionOut"] | null;
            /** Command */
            command: string[];
            environment: components["schemas"]["JobEnvironmentOut"] | null;
            /** Origins */
            origins: {
                [key: string]: string;
            };
        };
        /**
         * RetentionOut
         * @description What is deleted by age, and how much that would free now.
         */
        RetentionOut: {
            /** Is Set */
            is_set: boolean;
            logs: components["schemas"]["LogRetentionOut"];
            metrics: components["schemas"]["MetricRetentionOut"];
        };
        /** RungOut */
        RungOut: {
            /** Bracket */
            bracket: number;
            /** Cutoff */
            cutoff: number | null;
            /** Index */
            index: number;
            /** Num Outran */
            num_outran: number;
            /** Num Promoted */
            num_promoted: number;
            /** Num Trials */
            num_trials: number;
            /** Trials */
            trials: components["schemas"]["RungTrial"][];
            /** Units */
            units: number;
        };
        /** RungTrial */
        RungTrial: {
            /** Metric */
            metric: number | ("NaN" | "Infinity" | "-Infinity") | null;
            /** Outran */
            outran: boolean;
            /** Promoted */
            promoted: boolean;
            /** Stopped */
            stopped: boolean;
            /** Trial Id */
            trial_id: number;
            /** Trial No */
            trial_no: number;
        };
        /**
         * RunningAllocation
         * @description An allocation that an agent found on its disk at start, with its shim's state.
         */
        RunningAllocation: {
            /** Allocation Id */
            allocation_id: string;
            /** Attempt No */
            attempt_no: number;
            /** Num Records */
            num_records: number;
            /** Observed */
            observed: string;
        };
        /** SavedViewIn */
        SavedViewIn: {
            /**
             * Is Default
             * @default false
             */
            is_default: boolean;
            /** Name */
            name: string;
            /**
             * Page
             * @enum {string}
             */
            page: "experiments" | "compare";
            /** Project */
            project?: string | null;
            /** Query */
            query: string;
        };
        /** SavedViewOut */
        SavedViewOut: {
            /**
             * Changed At
             * Format: date-time
             */
            changed_at: string;
            /** Id */
            id: number;
            /** Is Default */
            is_default: boolean;
            /** Is Mine */
            is_mine: boolean;
            /** Name */
            name: string;
            /** Owner */
            owner: string;
            /**
             * Page
             * @enum {string}
             */
            page: "experiments" | "compare";
            /** Project */
            project: string | null;
            /** Query */
            query: string;
        };
        /**
         * SavedViewPatch
         * @description What is left out stays as it is.
         */
        SavedViewPatch: {
            /** Is Default */
            is_default?: boolean | null;
            /** Name */
            name?: string | null;
            /** Project */
            project?: string | null;
            /** Query */
            query?: string | null;
        };
        /**
         * ScalingEstimateOut
         * @description A figure with its 95% interval; the bounds are null if there are too few measurements.
         */
        ScalingEstimateOut: {
            /** High */
            high: number | null;
            /** Is Determined */
            is_determined?: boolean;
            /** Low */
            low: number | null;
            /** N */
            n: number;
            /** Value */
            value: number;
        };
        /** ScalingIn */
        ScalingIn: {
            /**
             * Mode
             * @default weak
             * @enum {string}
             */
            mode: "strong" | "weak";
            /**
             * Repeats
             * @default 3
             */
            repeats: number;
            /** Slot Hours */
            slot_hours?: number | null;
            /** Slots */
            slots: number[];
            /**
             * Steps
             * @default 60
             */
            steps: number;
        };
        /**
         * ScalingPointOut
         * @description A run at one size.
         */
        ScalingPointOut: {
            /** Experiment Id */
            experiment_id: number | null;
            /** Num Steps */
            num_steps: number;
            /** Problem */
            problem: string;
            /** Repeat */
            repeat: number;
            /** Samples Per S */
            samples_per_s: number | null;
            /** Slots */
            slots: number;
            /** State */
            state: string | null;
            /** Step Ms */
            step_ms: number | null;
        };
        /** ScalingReportDetail */
        ScalingReportDetail: {
            /**
             * Created At
             * Format: date-time
             */
            created_at: string;
            /** Ended At */
            ended_at: string | null;
            /** Experiment Id */
            experiment_id: number;
            /** Experiment Name */
            experiment_name: string;
            /** Id */
            id: number;
            /**
             * Mode
             * @enum {string}
             */
            mode: "strong" | "weak";
            model: components["schemas"]["CostModelOut"] | null;
            /** Num Over */
            num_over: number;
            /** Num Runs */
            num_runs: number;
            /** Num Steps */
            num_steps: number;
            /** Points */
            points: components["schemas"]["ScalingPointOut"][];
            /** Predictions */
            predictions: components["schemas"]["muster_server__schemas__scaling__PredictionOut"][];
            /** Reason */
            reason: string;
            /** Requested By */
            requested_by: string;
            /** Sizes */
            sizes: components["schemas"]["ScalingSizeOut"][];
            /** Slot Hours */
            slot_hours: number | null;
            /**
             * State
             * @enum {string}
             */
            state: "running" | "done" | "canceled" | "failed";
        };
        /** ScalingReportOut */
        ScalingReportOut: {
            /**
             * Created At
             * Format: date-time
             */
            created_at: string;
            /** Ended At */
            ended_at: string | null;
            /** Experiment Id */
            experiment_id: number;
            /** Experiment Name */
            experiment_name: string;
            /** Id */
            id: number;
            /**
             * Mode
             * @enum {string}
             */
            mode: "strong" | "weak";
            /** Num Over */
            num_over: number;
            /** Num Runs */
            num_runs: number;
            /** Num Steps */
            num_steps: number;
            /** Reason */
            reason: string;
            /** Requested By */
            requested_by: string;
            /** Slot Hours */
            slot_hours: number | null;
            /**
             * State
             * @enum {string}
             */
            state: "running" | "done" | "canceled" | "failed";
        };
        /** ScalingSizeOut */
        ScalingSizeOut: {
            efficiency: components["schemas"]["ScalingEstimateOut"];
            /** Hidden Ms */
            hidden_ms: number;
            /** Num Runs */
            num_runs: number;
            /** Num Steps */
            num_steps: number;
            /** Parts Ms */
            parts_ms: {
                [key: string]: number;
            };
            samples_per_s: components["schemas"]["ScalingEstimateOut"];
            /** Samples Per Slot */
            samples_per_slot: number;
            /** Slots */
            slots: number;
            speedup: components["schemas"]["ScalingEstimateOut"];
            step_ms: components["schemas"]["ScalingEstimateOut"];
        };
        /**
         * ScheduleRecord
         * @description Timeline of a pipeline's worker in one step, in columns of one length. Replaces earlier ones.
         */
        ScheduleRecord: {
            /** Ends Us */
            ends_us: number[];
            /** Kinds */
            kinds: string[];
            /** Local Rank */
            local_rank: number;
            /** Micro Batches */
            micro_batches: number[];
            /**
             * Num Left Out
             * @default 0
             */
            num_left_out: number;
            /** Rank */
            rank: number;
            /** Stages */
            stages: number[];
            /** Starts Us */
            starts_us: number[];
            /** Step */
            step: number;
            /**
             * Type
             * @default schedule
             * @constant
             */
            type: "schedule";
        };
        /**
         * SearchCostOut
         * @description Expected cost of a whole search, from a simulation of its decisions with random results.
         */
        SearchCostOut: {
            /** Cost */
            cost: number | null;
            /** Currency */
            currency: string;
            /** Duration S */
            duration_s: number | null;
            /** Full Slot Hours */
            full_slot_hours: number | null;
            /** Full Units */
            full_units: number;
            /** Slot Hours */
            slot_hours: number | null;
            /** Total Units */
            total_units: number;
            /** Unit */
            unit: string;
            /** Unit S */
            unit_s: number | null;
            /** Unit S From */
            unit_s_from: string;
            /** Within Budget */
            within_budget: boolean | null;
        };
        /**
         * SearchLimitsIn
         * @description Changes to a running search. A null field stays as it is.
         */
        SearchLimitsIn: {
            /** Concurrent */
            concurrent?: number | "auto" | null;
            /** Trials */
            trials?: number | null;
        };
        /** SearchOut */
        SearchOut: {
            /** Concurrent */
            concurrent: number | null;
            /** Finish Reason */
            finish_reason: string;
            /** Finished */
            finished: boolean;
            /** Method */
            method: string;
            /** Metric Goal */
            metric_goal: string | null;
            /** Metric Name */
            metric_name: string | null;
            /** Num Trials Created */
            num_trials_created: number;
            /** Num Trials Planned */
            num_trials_planned: number | null;
            /** Rule */
            rule: string;
            /** Rungs */
            rungs: components["schemas"]["RungOut"][];
            /** Sampler */
            sampler: string;
            /** Unit */
            unit: string | null;
        };
        /**
         * SearchResultsOut
         * @description Results as columns over all trials, in order of trial number.
         */
        SearchResultsOut: {
            /** Ended At */
            ended_at: (string | null)[];
            /** Epoch */
            epoch: (number | null)[];
            /** Front */
            front: number[];
            /** Generation */
            generation: number[];
            /** Id */
            id: number[];
            /** Metric */
            metric: (number | ("NaN" | "Infinity" | "-Infinity") | null)[];
            /** Metric Goal */
            metric_goal: string | null;
            /** Metric Name */
            metric_name: string | null;
            /** No */
            no: number[];
            /** Objectives */
            objectives: components["schemas"]["ObjectiveOut"][];
            /** Parameters */
            parameters: components["schemas"]["ParameterOut"][];
            /** Parent No */
            parent_no: (number | null)[];
            /** Started At */
            started_at: (string | null)[];
            /** State */
            state: string[];
            /** Step */
            step: number[];
            /** Values */
            values: (number | string | null)[][];
        };
        /** SecretIn */
        SecretIn: {
            /** Value */
            value: string;
        };
        /** SecretOut */
        SecretOut: {
            /**
             * Changed At
             * Format: date-time
             */
            changed_at: string;
            /** Changed By */
            changed_by: string;
            /**
             * Created At
             * Format: date-time
             */
            created_at: string;
            /** Created By */
            created_by: string;
            /** Last Used At */
            last_used_at: string | null;
            /** Name */
            name: string;
            /**
             * Owner
             * @enum {string}
             */
            owner: "user" | "project";
            /** Owner Name */
            owner_name: string;
            /** Version */
            version: number;
        };
        /**
         * SecretValue
         * @description One secret. Its representation leaves the value out, so that no traceback shows it.
         */
        SecretValue: {
            /** Changed At Ms */
            changed_at_ms: number;
            /** Name */
            name: string;
            /** Owner */
            owner: string;
            /** Value */
            value: string;
            /** Version */
            version: number;
        };
        /**
         * SecretsReply
         * @description Values of all names in AllocationSpec.secrets. If one of them does not exist, the answer is
         *     409 `secrets.missing`, which names it.
         */
        SecretsReply: {
            /** Secrets */
            secrets: components["schemas"]["SecretValue"][];
        };
        /**
         * SecretsRequest
         * @description `POST /agent/v1/allocations/{allocation_id}/secrets`. Every answer is in the audit trail.
         */
        SecretsRequest: {
            /** Attempt No */
            attempt_no: number;
            /** Node Id */
            node_id: string;
            /** Session Epoch */
            session_epoch: number;
        };
        /**
         * Series
         * @description Points or buckets of one series in a window of steps, oldest first, columns of equal length.
         *
         *     raw: one entry per point, `min`=`max`=`mean`=`last`=value, `count`=1.
         *     Otherwise buckets of `bucket_steps` steps whose borders are multiples of it, so that new points
         *     only ever change the last one; the window's least and greatest value are always among them.
         */
        Series: {
            /** Bucket Steps */
            bucket_steps: number;
            /** Count */
            count: number[];
            /**
             * Downsampled
             * @default false
             */
            downsampled: boolean;
            /** Last */
            last: (number | ("NaN" | "Infinity" | "-Infinity"))[];
            /** Max */
            max: (number | ("NaN" | "Infinity" | "-Infinity") | null)[];
            /** Mean */
            mean: (number | ("NaN" | "Infinity" | "-Infinity") | null)[];
            /** Min */
            min: (number | ("NaN" | "Infinity" | "-Infinity") | null)[];
            /** Name */
            name: string;
            /** Num Points */
            num_points: number;
            /** Num Steps */
            num_steps?: number | null;
            /** Rank */
            rank: number;
            /** Raw */
            raw: boolean;
            /** Step */
            step: number[];
            /** Time Ms */
            time_ms: number[];
        };
        /**
         * SeriesInfo
         * @description One metric of one rank; numbers are over the visible curve (superseded points hidden).
         */
        SeriesInfo: {
            /** Count */
            count: number;
            /** First Step */
            first_step: number;
            /** Last */
            last: number | ("NaN" | "Infinity" | "-Infinity");
            /** Last Step */
            last_step: number;
            /** Max */
            max: number | null;
            /** Min */
            min: number | null;
            /** Name */
            name: string;
            /** Num Non Finite */
            num_non_finite: number;
            /** Rank */
            rank: number;
        };
        /** SeriesList */
        SeriesList: {
            /** Items */
            items: components["schemas"]["SeriesInfo"][];
            /** Names */
            names: string[];
            /** Ranks */
            ranks: number[];
        };
        /**
         * SeriesPoints
         * @description Consecutive points of one metric of one rank.
         */
        SeriesPoints: {
            /** Name */
            name: string;
            /** Steps */
            steps: number[];
            /** Times Ms */
            times_ms: number[];
            /** Values */
            values: (number | string)[];
        };
        /** SeriesReply */
        SeriesReply: {
            /** Attempt No */
            attempt_no: number;
            /** Num Matching */
            num_matching: number;
            /** Restarts */
            restarts: number[];
            /** Series */
            series: components["schemas"]["Series"][];
            /** Trial Id */
            trial_id: number;
            /** Truncated */
            truncated: boolean;
        };
        /** SetupIn */
        SetupIn: {
            /** Password */
            password: string;
            /** Token */
            token: string;
            /** Username */
            username: string;
        };
        /**
         * ShardDone
         * @description A shard whose part is complete on the node's disk.
         */
        ShardDone: {
            /** No */
            no: number;
            /** Num Errors */
            num_errors: number;
            /** Num Rows */
            num_rows: number;
            /** Sha256 */
            sha256: string;
            /** Size Bytes */
            size_bytes: number;
            /** Token */
            token: number;
        };
        /**
         * ShardGrant
         * @description A shard that a worker holds.
         */
        ShardGrant: {
            /** End */
            end: number;
            /** First Row */
            first_row: number;
            /** Input No */
            input_no: number;
            /** No */
            no: number;
            /** Num Rows */
            num_rows: number;
            /** Rank */
            rank: number;
            /** Start */
            start: number;
            /** Token */
            token: number;
        };
        /**
         * ShardOrders
         * @description Everything that the workers of one allocation hold. Replaces earlier orders of a smaller number.
         */
        ShardOrders: {
            /** Grants */
            grants?: components["schemas"]["ShardGrant"][];
            /** Inputs */
            inputs?: {
                [key: string]: components["schemas"]["InputFile"];
            };
            /**
             * Is Complete
             * @default false
             */
            is_complete: boolean;
            /** No */
            no: number;
            /**
             * Num Done
             * @default 0
             */
            num_done: number;
            /**
             * Num Errors
             * @default 0
             */
            num_errors: number;
            /**
             * Num Rows
             * @default 0
             */
            num_rows: number;
            /**
             * Num Shards
             * @default 0
             */
            num_shards: number;
            /** Parts */
            parts?: components["schemas"]["CommittedPart"][];
            /**
             * Parts From
             * @default 0
             */
            parts_from: number;
            /**
             * Problem
             * @default
             */
            problem: string;
            /** Refused */
            refused?: number[][];
            /**
             * Rows Done
             * @default 0
             */
            rows_done: number;
            /**
             * Wants Plan
             * @default false
             */
            wants_plan: boolean;
        };
        /**
         * ShardPlanRecord
         * @description All inputs and shards of the job, from rank 0 when the orders want them. Columns have one length;
         *     the position in them is the shard's number. A later plan is ignored.
         */
        ShardPlanRecord: {
            /** Ends */
            ends: number[];
            /** First Rows */
            first_rows: number[];
            /** Input Nos */
            input_nos: number[];
            /** Inputs */
            inputs: components["schemas"]["InputFile"][];
            /** Nums Rows */
            nums_rows: number[];
            /** Starts */
            starts: number[];
            /**
             * Type
             * @default shard_plan
             * @constant
             */
            type: "shard_plan";
        };
        /**
         * ShardsRecord
         * @description What a worker has done and wants. Each prolongs the leases of the worker.
         */
        ShardsRecord: {
            /** Done */
            done?: components["schemas"]["ShardDone"][];
            /** Local Rank */
            local_rank: number;
            /** Parts */
            parts?: number[][] | null;
            /**
             * Parts From
             * @default 0
             */
            parts_from: number;
            /** Rank */
            rank: number;
            /**
             * Rows Per S
             * @default 0
             */
            rows_per_s: number;
            /**
             * Takes None
             * @default false
             */
            takes_none: boolean;
            /**
             * Type
             * @default shards
             * @constant
             */
            type: "shards";
        };
        /** SignatureIn */
        SignatureIn: {
            /**
             * Inputs
             * @default []
             */
            inputs: components["schemas"]["TensorSpec"][];
            /**
             * Outputs
             * @default []
             */
            outputs: components["schemas"]["TensorSpec"][];
        };
        /**
         * SlotInfo
         * @description One schedulable accelerator, or one CPU share.
         */
        SlotInfo: {
            /** Index */
            index: number;
            /**
             * Memory Bytes
             * @default 0
             */
            memory_bytes: number;
            /** Name */
            name: string;
            /**
             * Slot Type
             * @enum {string}
             */
            slot_type: "cpu" | "cuda";
            /**
             * Uuid
             * @default
             */
            uuid: string;
        };
        /** SlotOut */
        SlotOut: {
            /** Allocation Id */
            allocation_id: string | null;
            /** Experiment Id */
            experiment_id: number | null;
            /** Experiment Name */
            experiment_name: string | null;
            /** Index */
            index: number;
            /** Memory Bytes */
            memory_bytes: number;
            /** Name */
            name: string;
            /** Rank */
            rank: number | null;
            /** Slot Type */
            slot_type: string;
            /** Trial Id */
            trial_id: number | null;
        };
        /**
         * SpendingOut
         * @description Slot-hours spent. A slot counts from its reservation until it is free again or its node is
         *     lost.
         */
        SpendingOut: {
            /** Cost */
            cost: number;
            /** Cost Per Hour */
            cost_per_hour: number;
            /** Currency */
            currency: string;
            /** Slot Hours */
            slot_hours: number;
            /** Slots Held */
            slots_held: number;
        };
        /** StacksOut */
        StacksOut: {
            /** Attempt No */
            attempt_no: number;
            /** Kept */
            kept: number[];
            /** No */
            no: number;
            /** Num Expected */
            num_expected: number;
            /** Ranks */
            ranks: components["schemas"]["RankStacksOut"][];
            /** Trial Id */
            trial_id: number;
        };
        /**
         * StacksRecord
         * @description Stacks of a worker at the time of the request.
         */
        StacksRecord: {
            /**
             * Is Cut
             * @default false
             */
            is_cut: boolean;
            /** Local Rank */
            local_rank: number;
            /** No */
            no: number;
            /**
             * Problem
             * @default
             */
            problem: string;
            /** Rank */
            rank: number;
            /**
             * Text
             * @default
             */
            text: string;
            /**
             * Type
             * @default stacks
             * @constant
             */
            type: "stacks";
        };
        /**
         * StageOut
         * @description One stage of a pipeline: means over the ranks that hold it.
         */
        StageOut: {
            /** Bubble Ms */
            bubble_ms: number;
            /** Compute Ms */
            compute_ms: number;
            /** Ranks */
            ranks: number[];
            /** Stage */
            stage: number;
            /** Step Ms */
            step_ms: number;
        };
        /**
         * StateRecord
         * @description A step of the allocation's own state machine. EXITED is the last record of a stream and is
         *     sent only after every log byte has been acknowledged. STOPPING with `exit` says at once what the
         *     end will be, when a member has failed: the rest of its gang must not wait for its log.
         */
        StateRecord: {
            /**
             * Blames
             * @default
             * @enum {string}
             */
            blames: "" | "node" | "placement" | "document" | "request";
            environment?: components["schemas"]["JobEnvironment"] | null;
            exit?: components["schemas"]["ExitInfo"] | null;
            facts?: components["schemas"]["NodeFacts"] | null;
            /**
             * Message
             * @default
             */
            message: string;
            /**
             * Observed
             * @enum {string}
             */
            observed: "ASSIGNED" | "PREPARING" | "READY" | "PREPARE_FAILED" | "STARTING" | "RUNNING" | "STOPPING" | "EXITED";
            /**
             * Passes
             * @default false
             */
            passes: boolean;
            rendezvous?: components["schemas"]["Rendezvous"] | null;
            /**
             * Type
             * @default state
             * @constant
             */
            type: "state";
        };
        /**
         * StorageShare
         * @description Checkpoints and outputs in one storage folder.
         */
        StorageShare: {
            /** Is Reachable */
            is_reachable: boolean;
            /** Nodes */
            nodes: string[];
            /** Num Checkpoints */
            num_checkpoints: number;
            /** Size Bytes */
            size_bytes: number;
            /** Storage Id */
            storage_id: string;
        };
        /**
         * StuckOut
         * @description A running trial none of whose ranks has moved since this was noticed.
         */
        StuckOut: {
            /** Experiment Id */
            experiment_id: number;
            /** Experiment Name */
            experiment_name: string;
            /**
             * Moved At
             * Format: date-time
             */
            moved_at: string;
            /**
             * Stuck At
             * Format: date-time
             */
            stuck_at: string;
            /** Trial Id */
            trial_id: number;
            /** Trial No */
            trial_no: number;
        };
        /**
         * SystemMetricsOut
         * @description Usage of a node over time. Each of `series` holds one value for each of `times`; null where
         *     nothing was reported.
         */
        SystemMetricsOut: {
            /** Gpu Problem */
            gpu_problem: string;
            /** Node Id */
            node_id: string;
            /** Node Name */
            node_name: string;
            /** Ranks */
            ranks: components["schemas"]["NodeRankOut"][];
            /** Series */
            series: {
                [key: string]: (number | null)[];
            };
            /** Times */
            times: string[];
        };
        /**
         * TellIn
         * @description State of a trial that runs outside Muster.
         */
        TellIn: {
            /**
             * Metrics
             * @default {}
             */
            metrics: {
                [key: string]: number | ("NaN" | "Infinity" | "-Infinity");
            };
            /** No */
            no: number;
            /**
             * Reason
             * @default
             */
            reason: string;
            /**
             * State
             * @default running
             * @enum {string}
             */
            state: "running" | "completed" | "failed" | "invalid";
            /** Units */
            units?: number | null;
        };
        /**
         * TellOut
         * @description What to do with the trial now.
         */
        TellOut: {
            /**
             * Decision
             * @enum {string}
             */
            decision: "continue" | "pause" | "stop" | "over";
            /**
             * Hint
             * @default
             */
            hint: string;
            /** Reason */
            reason: string;
            /** State */
            state: string;
        };
        /**
         * TensorSpec
         * @description An input or output of a model.
         */
        TensorSpec: {
            /**
             * Name
             * @default
             */
            name: string;
            /** Shape */
            shape?: number[] | null;
            /** Type */
            type: string;
        };
        /** TokenCreated */
        TokenCreated: {
            /**
             * Created At
             * Format: date-time
             */
            created_at: string;
            /** Expires At */
            expires_at: string | null;
            /** Id */
            id: number;
            /** Last Used At */
            last_used_at: string | null;
            /** Name */
            name: string;
            /** Parent Id */
            parent_id: number | null;
            /** Prefix */
            prefix: string;
            /**
             * Role
             * @enum {string}
             */
            role: "admin" | "member" | "viewer" | "metrics";
            /** Secret */
            secret: string;
        };
        /** TokenIn */
        TokenIn: {
            /** Expires In Days */
            expires_in_days?: number | null;
            /** Name */
            name: string;
            /** Role */
            role?: ("admin" | "member" | "viewer" | "metrics") | null;
        };
        /** TokenOut */
        TokenOut: {
            /**
             * Created At
             * Format: date-time
             */
            created_at: string;
            /** Expires At */
            expires_at: string | null;
            /** Id */
            id: number;
            /** Last Used At */
            last_used_at: string | null;
            /** Name */
            name: string;
            /** Parent Id */
            parent_id: number | null;
            /** Prefix */
            prefix: string;
            /**
             * Role
             * @enum {string}
             */
            role: "admin" | "member" | "viewer" | "metrics";
        };
        /** TrackedRunOut */
        TrackedRunOut: {
            /** Attempt No */
            attempt_no: number;
            /** Ended At */
            ended_at: string | null;
            /** Folder */
            folder: string;
            /** Label */
            label: string;
            /** Name */
            name: string;
            /** Params */
            params: {
                [key: string]: string;
            };
            /** Parent Run Id */
            parent_run_id: string;
            /** Run Id */
            run_id: string;
            /**
             * Started At
             * Format: date-time
             */
            started_at: string;
            /** Status */
            status: string;
            /** Tags */
            tags: {
                [key: string]: string;
            };
        };
        /**
         * TrackedRunRecord
         * @description What is new of a run that the script has started with a tracking client.
         */
        TrackedRunRecord: {
            /** Ended Ms */
            ended_ms?: number | null;
            /** Folder */
            folder: string;
            /**
             * Is New
             * @default false
             */
            is_new: boolean;
            /** Label */
            label: string;
            /** Name */
            name: string;
            /** Params */
            params?: {
                [key: string]: string;
            };
            /** Parent Id */
            parent_id: string;
            /** Removed Tags */
            removed_tags?: string[];
            /** Run Id */
            run_id: string;
            /** Started Ms */
            started_ms: number;
            /** Status */
            status: string;
            /** Tags */
            tags?: {
                [key: string]: string;
            };
            /**
             * Type
             * @default tracked_run
             * @constant
             */
            type: "tracked_run";
        };
        /** TrialDetail */
        TrialDetail: {
            /** Attempt No */
            attempt_no: number;
            /** Attempts */
            attempts: components["schemas"]["AttemptOut"][];
            /** Config */
            config: {
                [key: string]: unknown;
            };
            /** Desired */
            desired: string;
            /** Ended At */
            ended_at: string | null;
            /** Epoch */
            epoch: number | null;
            /** Estimated Start At */
            estimated_start_at: string | null;
            /** Exit Code */
            exit_code: number | null;
            /** Experiment Id */
            experiment_id: number;
            /** Experiment Name */
            experiment_name: string;
            /** Flags */
            flags: string[];
            /**
             * Generation
             * @default 0
             */
            generation: number;
            /** Hparams */
            hparams: {
                [key: string]: unknown;
            };
            /** Id */
            id: number;
            /** Is Impossible */
            is_impossible: boolean;
            /** Is Silent */
            is_silent: boolean;
            /** Last Report At */
            last_report_at: string | null;
            /** Logs Complete */
            logs_complete: boolean;
            /** Metric */
            metric: number | ("NaN" | "Infinity" | "-Infinity") | null;
            /** Metric Goal */
            metric_goal: string | null;
            /** Metric Name */
            metric_name: string | null;
            /** No */
            no: number;
            /** Notices */
            notices: components["schemas"]["NoticeOut"][];
            /** Num Restarts */
            num_restarts: number;
            /** Num Slots */
            num_slots: number;
            /** Num Slots Held */
            num_slots_held: number;
            /** Num Steps Planned */
            num_steps_planned: number | null;
            /** Parent No */
            parent_no?: number | null;
            /** Pending Parts */
            pending_parts: components["schemas"]["PartOut"][];
            /** Pending Reason */
            pending_reason: string;
            prediction: components["schemas"]["muster_server__schemas__predictions__PredictionOut"] | null;
            /**
             * Queued At
             * Format: date-time
             */
            queued_at: string;
            /** Reason */
            reason: string;
            /** Searcher */
            searcher: string;
            /** Seed */
            seed: number;
            /** Started At */
            started_at: string | null;
            /** State */
            state: string;
            /** Step */
            step: number;
            /** Summary */
            summary: {
                [key: string]: components["schemas"]["MetricSummary"];
            };
            /** Termination */
            termination: string | null;
            /** Unmanaged */
            unmanaged: string | null;
        };
        /** TrialOut */
        TrialOut: {
            /** Attempt No */
            attempt_no: number;
            /** Ended At */
            ended_at: string | null;
            /** Epoch */
            epoch: number | null;
            /** Experiment Id */
            experiment_id: number;
            /** Experiment Name */
            experiment_name: string;
            /** Flags */
            flags: string[];
            /**
             * Generation
             * @default 0
             */
            generation: number;
            /** Hparams */
            hparams: {
                [key: string]: unknown;
            };
            /** Id */
            id: number;
            /** Is Impossible */
            is_impossible: boolean;
            /** Is Silent */
            is_silent: boolean;
            /** Last Report At */
            last_report_at: string | null;
            /** Logs Complete */
            logs_complete: boolean;
            /** Metric */
            metric: number | ("NaN" | "Infinity" | "-Infinity") | null;
            /** No */
            no: number;
            /** Num Restarts */
            num_restarts: number;
            /** Num Slots */
            num_slots: number;
            /** Num Slots Held */
            num_slots_held: number;
            /** Num Steps Planned */
            num_steps_planned: number | null;
            /** Parent No */
            parent_no?: number | null;
            /** Pending Parts */
            pending_parts: components["schemas"]["PartOut"][];
            /** Pending Reason */
            pending_reason: string;
            /**
             * Queued At
             * Format: date-time
             */
            queued_at: string;
            /** Reason */
            reason: string;
            /** Started At */
            started_at: string | null;
            /** State */
            state: string;
            /** Step */
            step: number;
            /** Summary */
            summary: {
                [key: string]: components["schemas"]["MetricSummary"];
            };
            /** Termination */
            termination: string | null;
            /** Unmanaged */
            unmanaged: string | null;
        };
        /**
         * TrialPlanOut
         * @description Expectations for a trial, beside its measurements.
         */
        TrialPlanOut: {
            /** Bytes Per Step */
            bytes_per_step: number | null;
            /** Is Pending */
            is_pending: boolean;
            /** Known */
            known: boolean;
            /** Measured Bytes Per Step */
            measured_bytes_per_step: number | null;
            /** Measured Memory Bytes */
            measured_memory_bytes: number | null;
            /** Measured Rss Bytes */
            measured_rss_bytes: number | null;
            /** Measured Step Ms */
            measured_step_ms: number | null;
            memory: components["schemas"]["MemoryOut"] | null;
            /** Num Rows */
            num_rows: number;
            /** Reason */
            reason: string;
            /**
             * Reason Parts
             * @default []
             */
            reason_parts: components["schemas"]["PartOut"][];
            /** Remarks */
            remarks: components["schemas"]["PlanRemarkOut"][];
            step_ms: components["schemas"]["ScalingEstimateOut"] | null;
            /** Strategy */
            strategy: string;
            /** Time Source */
            time_source: string;
            /** Trial Id */
            trial_id: number;
        };
        /** TrialSeries */
        TrialSeries: {
            series: components["schemas"]["Series"];
            /** Trial Id */
            trial_id: number;
            /** Trial No */
            trial_no: number;
        };
        /**
         * TrialState
         * @enum {string}
         */
        TrialState: "QUEUED" | "STARTING" | "RUNNING" | "STOPPING" | "PAUSED" | "RETRY_WAIT" | "COMPLETED" | "STOPPED_EARLY" | "FAILED" | "CANCELED";
        /**
         * TrialSystemMetricsOut
         * @description Usage of the nodes on which a trial ran.
         */
        TrialSystemMetricsOut: {
            /** Full Hours */
            full_hours: number;
            /** Items */
            items: components["schemas"]["NodeUsageOut"][];
            /** Kept Days */
            kept_days: number;
            /** Node Names */
            node_names: string[];
            /** Shown */
            shown: string[];
        };
        /**
         * Tunnel
         * @description A tunnel that this node should open now.
         */
        Tunnel: {
            /** Allocation Id */
            allocation_id: string;
            /** Argv */
            argv: string[];
            /**
             * Columns
             * @default 80
             */
            columns: number;
            /**
             * Has Terminal
             * @default false
             */
            has_terminal: boolean;
            /** Id */
            id: string;
            /**
             * Kind
             * @enum {string}
             */
            kind: "exec" | "shell" | "port";
            /**
             * Port
             * @default 0
             */
            port: number;
            /**
             * Rows
             * @default 24
             */
            rows: number;
        };
        /**
         * UnsavedOut
         * @description Running trials of scripts without any checkpoint. What they have done is repeated when they are
         *     paused or preempted, unless they save one when asked to stop, or go on from files of their own:
         *     their work folders are kept.
         */
        UnsavedOut: {
            /** Longest S */
            longest_s: number;
            /** Num Trials */
            num_trials: number;
        };
        /** UploadedFileIn */
        UploadedFileIn: {
            /** Path */
            path: string;
            /** Sha256 */
            sha256: string;
        };
        /** UserIn */
        UserIn: {
            /** Password */
            password: string;
            /**
             * Role
             * @default member
             * @enum {string}
             */
            role: "admin" | "member" | "viewer";
            /** Username */
            username: string;
        };
        /** UserOut */
        UserOut: {
            /**
             * Created At
             * Format: date-time
             */
            created_at: string;
            /** Id */
            id: number;
            /** Is Active */
            is_active: boolean;
            /** Last Login At */
            last_login_at: string | null;
            /**
             * Role
             * @enum {string}
             */
            role: "admin" | "member" | "viewer";
            /** Username */
            username: string;
        };
        /** UserPatch */
        UserPatch: {
            /** Is Active */
            is_active?: boolean | null;
            /** Role */
            role?: ("admin" | "member" | "viewer") | null;
        };
        /**
         * UtilizationOut
         * @description Slots in use over time. Nodes that have been removed are not counted.
         */
        UtilizationOut: {
            /** Bucket S */
            bucket_s: number;
            /** Complete Since */
            complete_since: string | null;
            /** Pools */
            pools: components["schemas"]["PoolUtilizationOut"][];
            /** Times */
            times: string[];
        };
        /**
         * VersionIn
         * @description A new version: exactly one of `checkpoint_id`, `trial_id` and `files`.
         */
        VersionIn: {
            /** Checkpoint Id */
            checkpoint_id?: number | null;
            /**
             * Files
             * @default []
             */
            files: components["schemas"]["UploadedFileIn"][];
            /**
             * Metrics
             * @default {}
             */
            metrics: {
                [key: string]: number;
            };
            /**
             * Notes
             * @default
             */
            notes: string;
            /**
             * Paths
             * @default []
             */
            paths: string[];
            /** Project */
            project?: string | null;
            signature?: components["schemas"]["SignatureIn"] | null;
            /**
             * Tags
             * @default {}
             */
            tags: {
                [key: string]: string;
            };
            /** Trial Id */
            trial_id?: number | null;
        };
        /**
         * VersionPatch
         * @description What is left out stays as it is. Nothing else of a version ever changes.
         */
        VersionPatch: {
            /** Notes */
            notes?: string | null;
            /** Tags */
            tags?: {
                [key: string]: string;
            } | null;
        };
        /** WebhookIn */
        WebhookIn: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            kind: "webhook";
            /** Secret */
            secret?: string | null;
            /** Url */
            url: string;
        };
        /**
         * WorkFolder
         * @description A work folder on this node.
         */
        WorkFolder: {
            /** Attempt No */
            attempt_no: number;
            /** Experiment Id */
            experiment_id: number;
            /** Is Collected */
            is_collected: boolean;
            /** Size Bytes */
            size_bytes: number;
            /** Trial Id */
            trial_id: number;
        };
        /** WorkFoldersReply */
        WorkFoldersReply: {
            /** Delete */
            delete?: number[];
        };
        /**
         * WorkFoldersRequest
         * @description `POST /agent/v1/work-folders`: what lies on this node, so that the server can say what goes.
         */
        WorkFoldersRequest: {
            /** Folders */
            folders: components["schemas"]["WorkFolder"][];
            /** Node Id */
            node_id: string;
            /** Session Epoch */
            session_epoch: number;
        };
        /**
         * WorkSource
         * @description The last manifest of one node rank: the content from which a work folder is restored.
         */
        WorkSource: {
            /** Attempt No */
            attempt_no: number;
            /** Folder */
            folder: string;
            /** Node Id */
            node_id: string;
            /** Node Rank */
            node_rank: number;
            /** Seq */
            seq: number;
            /** Size Bytes */
            size_bytes: number;
            /**
             * Source
             * @default
             */
            source: string;
            /** Storage Id */
            storage_id: string;
            /** Storage Url */
            storage_url: string;
        };
        /** WorkerExit */
        WorkerExit: {
            /**
             * At Ms
             * @default 0
             */
            at_ms: number;
            /**
             * Blames Peer
             * @default false
             */
            blames_peer: boolean;
            /** Exit Code */
            exit_code?: number | null;
            /** Local Rank */
            local_rank: number;
            /**
             * Message
             * @default
             */
            message: string;
            /** Rank */
            rank: number;
            /** Signal */
            signal?: number | null;
        };
        /** WorkerOut */
        WorkerOut: {
            /** Backend */
            backend: string;
            /** Device */
            device: string;
            /** Ended At */
            ended_at: string | null;
            /** Exit Code */
            exit_code: number | null;
            /** Exit Message */
            exit_message: string;
            /** Host */
            host: string;
            /** Last Report At */
            last_report_at: string | null;
            /** Latest */
            latest: {
                [key: string]: number | ("NaN" | "Infinity" | "-Infinity");
            };
            /** Local Rank */
            local_rank: number;
            /** Master Addr */
            master_addr: string;
            /** Master Port */
            master_port: number;
            /** Node Name */
            node_name: string;
            /** Node Rank */
            node_rank: number;
            /** Pid */
            pid: number;
            /** Rank */
            rank: number;
            /** Reports */
            reports: boolean;
            /** Signal */
            signal: number | null;
            /** Slot */
            slot: number;
            /**
             * Started At
             * Format: date-time
             */
            started_at: string;
            /** Step */
            step: number;
            /** World Size */
            world_size: number;
        };
        /**
         * WorkerProgress
         * @description Progress of a worker.
         */
        WorkerProgress: {
            /** Groups */
            groups?: components["schemas"]["GroupProgress"][];
            /** Local Rank */
            local_rank: number;
            /**
             * Num Reports
             * @default 0
             */
            num_reports: number;
            /**
             * Phase
             * @default
             */
            phase: string;
            /** Phase Since Ms */
            phase_since_ms?: number | null;
            /**
             * Process
             * @default
             * @enum {string}
             */
            process: "" | "runs" | "sleeps" | "blocked" | "stopped";
            /** Rank */
            rank: number;
            /**
             * Reports
             * @default false
             */
            reports: boolean;
            /** Step */
            step?: number | null;
            /** Waits For */
            waits_for?: number | null;
            /**
             * Waits Kind
             * @default
             */
            waits_kind: string;
        };
        /**
         * WorkerRecord
         * @description A worker process as known from its environment, or from its own report.
         */
        WorkerRecord: {
            /**
             * Attached
             * @default false
             */
            attached: boolean;
            /**
             * Backend
             * @default
             */
            backend: string;
            /**
             * Device
             * @default
             */
            device: string;
            /** Host */
            host: string;
            /** Local Rank */
            local_rank: number;
            /** Master Addr */
            master_addr: string;
            /** Master Port */
            master_port: number;
            /** Node Rank */
            node_rank: number;
            /** Pid */
            pid: number;
            /** Rank */
            rank: number;
            /**
             * Reports
             * @default false
             */
            reports: boolean;
            /**
             * Torch Version
             * @default
             */
            torch_version: string;
            /**
             * Type
             * @default worker
             * @constant
             */
            type: "worker";
            /** World Size */
            world_size: number;
        };
        /**
         * PredictionOut
         * @description How far a batch inference is.
         */
        muster_server__schemas__predictions__PredictionOut: {
            /** Num Done */
            num_done: number;
            /** Num Errors */
            num_errors: number;
            /** Num Rows */
            num_rows: number;
            /** Num Shards */
            num_shards: number;
            /** Problem */
            problem: string;
            /** Rows Done */
            rows_done: number;
        };
        /** PredictionOut */
        muster_server__schemas__scaling__PredictionOut: {
            /** Communication Ms */
            communication_ms: number;
            /** Compute Ms */
            compute_ms: number;
            /** Doubt */
            doubt: string;
            /** Doubt Parts */
            doubt_parts: components["schemas"]["PartOut"][];
            /** Efficiency */
            efficiency: number | null;
            /** Exposed Ms */
            exposed_ms: number;
            /** Network */
            network: string;
            /** Other Ms */
            other_ms: number;
            samples_per_s: components["schemas"]["ScalingEstimateOut"];
            /** Samples Per Slot */
            samples_per_slot: number;
            /** Slots */
            slots: number;
            step_ms: components["schemas"]["ScalingEstimateOut"];
        };
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
    agent_logs: {
        parameters: {
            query: {
                offset: number;
                attempt_no: number;
                node_id: string;
                session_epoch: number;
            };
            header?: never;
            path: {
                allocation_id: string;
                local_rank: number;
                stream: "stdout" | "stderr";
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LogsReply"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    agent_model_files: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                allocation_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ModelFilesRequest"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ModelFilesReply"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    agent_model_content: {
        parameters: {
            query: {
                node_id: string;
                session_epoch: number;
                attempt_no: number;
                name: string;
                path: string;
                export?: number | null;
            };
            header?: never;
            path: {
                allocation_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/octet-stream": unknown;
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    agent_model_part: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                allocation_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ModelPartRequest"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ModelPartReply"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    agent_records: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                allocation_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["RecordsRequest"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RecordsReply"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    agent_secrets: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                allocation_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SecretsRequest"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SecretsReply"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    agent_assignments: {
        parameters: {
            query: {
                node_id: string;
                session_epoch: number;
                index?: number;
                wait?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AssignmentsReply"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    agent_get_blob: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                sha256: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/gzip": unknown;
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    agent_deletions: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["DeletionsRequest"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DeletionsReply"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    agent_descriptions: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["DescriptionRequest"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DescriptionReply"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    agent_exports: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ExportRequest"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ExportReply"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    agent_export_piece: {
        parameters: {
            query: {
                node_id: string;
                session_epoch: number;
            };
            header?: never;
            path: {
                export_id: number;
                idx: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ExportReply"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    agent_lease: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["LeaseRequest"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LeaseReply"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    agent_leave: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["LeaveRequest"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LeaveReply"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    agent_outputs: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["OutputsRequest"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OutputsReply"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    agent_preflights: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["PreflightRequest"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PreflightReply"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    agent_register: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["RegisterRequest"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RegisterReply"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    agent_work_folders: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["WorkFoldersRequest"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WorkFoldersReply"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    list_audit: {
        parameters: {
            query?: {
                /** @description Part of the actor, action, subject or address. */
                q?: string | null;
                /** @description `next` of the page before; leave out for the first. */
                cursor?: string | null;
                /** @description Entries per page. */
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Page_AuditOut_"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    login: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["LoginIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MeOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    logout: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_me: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MeOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    one_time_sign_in: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["OneTimeIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MeOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    change_password: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["PasswordIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    setup: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SetupIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MeOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_auth_state: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuthState"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    put_blob: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                sha256: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/gzip": unknown;
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BlobOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    head_blob: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                sha256: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    list_checkpoints: {
        parameters: {
            query?: {
                /** @description Its id. */
                experiment?: number | null;
                project?: string | null;
                /** @description Absent: all. */
                state?: ("complete" | "deleting" | "deleted")[];
                /** @description The last saved first, or the largest. */
                order?: "newest" | "largest";
                /** @description `next` of the page before; leave out for the first. */
                cursor?: string | null;
                /** @description Entries per page. */
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CheckpointListOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    request_export: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                checkpoint_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ExportOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    pin_checkpoint: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                checkpoint_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CheckpointListItem"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    unpin_checkpoint: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                checkpoint_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CheckpointListItem"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_cluster: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ClusterOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_cluster_utilization: {
        parameters: {
            query?: {
                /** @description How far back. */
                hours?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UtilizationOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    list_deletions: {
        parameters: {
            query?: {
                /** @description Only those that wait, and those an agent refused. */
                open_only?: boolean;
                /** @description `next` of the page before; leave out for the first. */
                cursor?: string | null;
                /** @description Entries per page. */
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Page_FileDeletionOut_"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    dismiss_deletion: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                deletion_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FileDeletionOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_diagnosis: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                diagnosis_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DiagnosisOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    apply_diagnosis: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                diagnosis_id: number;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ApplyIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DiagnosisOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    cancel_diagnosis: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                diagnosis_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DiagnosisOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    list_dismissals: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DismissalsOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    create_dismissal: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description What is dismissed: its kind, its ID and when it happened. */
                key: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    delete_dismissal: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description What is dismissed: its kind, its ID and when it happened. */
                key: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    list_experiments: {
        parameters: {
            query?: {
                /** @description A column; with - before it the largest first. Experiments without a value come last, NaN before them. */
                sort?: string;
                /** @description Columns for `values`: config.<path>, label.<name>, hparam.<name>, metric.<last|min|max|best>.<name>. */
                column?: string[] | null;
                /** @description `next` of the page before; leave out for the first. */
                cursor?: string | null;
                /** @description Entries per page. */
                limit?: number;
                state?: components["schemas"]["ExperimentState"][] | null;
                project?: string | null;
                /** @description name=value, or the name alone for any value. */
                label?: string[] | null;
                /** @description By user name. */
                owner?: string | null;
                /** @description Part of the name. */
                q?: string | null;
                archived?: "exclude" | "include" | "only";
                /** @description A condition on a column, with blanks: metric.last.val/loss < 0.5, or hparam.lr is missing */
                where?: string[] | null;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Page_ExperimentOut_"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    create_experiment: {
        parameters: {
            query?: never;
            header?: {
                /** @description A repetition with the same key and body changes nothing and is answered alike. */
                "idempotency-key"?: string | null;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ExperimentIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ExperimentDetail"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_experiment: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                experiment_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ExperimentDetail"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    delete_experiment: {
        parameters: {
            query?: {
                /** @description Leave its checkpoint files. */
                keep_files?: boolean;
            };
            header?: never;
            path: {
                experiment_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DeletionOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    update_experiment: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                experiment_id: number;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ExperimentPatch"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ExperimentDetail"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    set_experiment_budget: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                experiment_id: number;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Budget"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ExperimentDetail"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    clean_checkpoints: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                experiment_id: number;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["KeepIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CleaningOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    preview_checkpoint_cleaning: {
        parameters: {
            query?: {
                last?: number | null;
                best?: number | null;
                experiment_best?: number | null;
            };
            header?: never;
            path: {
                experiment_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CleaningPlanOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    list_experiment_children: {
        parameters: {
            query?: {
                /** @description `next` of the page before; leave out for the first. */
                cursor?: string | null;
                /** @description Entries per page. */
                limit?: number;
            };
            header?: never;
            path: {
                experiment_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Page_ChildOut_"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    preview_deletion: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                experiment_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DeletionPlanOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    list_experiment_events: {
        parameters: {
            query?: {
                /** @description `next` of the page before; leave out for the first. */
                cursor?: string | null;
                /** @description Entries per page. */
                limit?: number;
            };
            header?: never;
            path: {
                experiment_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Page_EventOut_"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    list_experiment_log_lines: {
        parameters: {
            query?: {
                /** @description By their numbers. Absent: all. */
                trial?: number[];
                /** @description As the text of a line says. Absent: all. */
                level?: ("debug" | "info" | "warning" | "error" | "critical")[];
                /** @description Only lines with this text. */
                q?: string;
                /** @description `q` is a pattern of RE2 (linear time, no back-references). */
                regex?: boolean;
                match_case?: boolean;
                /** @description -1: the launcher. Absent: all. */
                rank?: number[];
                stream?: ("stdout" | "stderr") | null;
                attempt?: number | null;
                node?: string[];
                /** @description Only lines received from this time on. */
                since?: string | null;
                /** @description Only lines received before this time. */
                until?: string | null;
                /** @description Begin at this line: stream_id:no, as lines say them. */
                line?: string | null;
                /** @description Begin at the first line received then or later. */
                time?: string | null;
                /** @description Begin at this part of the longest stream's lines. */
                fraction?: number | null;
                cursor?: string | null;
                limit?: number;
                from?: ("head" | "tail") | null;
            };
            header?: never;
            path: {
                experiment_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LogPage"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_experiment_log_histogram: {
        parameters: {
            query?: {
                /** @description By their numbers. Absent: all. */
                trial?: number[];
                /** @description -1: the launcher. Absent: all. */
                rank?: number[];
                stream?: ("stdout" | "stderr") | null;
                attempt?: number | null;
                node?: string[];
                /** @description Only lines received from this time on. */
                since?: string | null;
                /** @description Only lines received before this time. */
                until?: string | null;
            };
            header?: never;
            path: {
                experiment_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LogHistogram"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    list_experiment_model_uses: {
        parameters: {
            query?: {
                /** @description `next` of the page before; leave out for the first. */
                cursor?: string | null;
                /** @description Entries per page. */
                limit?: number;
            };
            header?: never;
            path: {
                experiment_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Page_ModelUseOut_"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    list_experiment_model_versions: {
        parameters: {
            query?: {
                /** @description `next` of the page before; leave out for the first. */
                cursor?: string | null;
                /** @description Entries per page. */
                limit?: number;
            };
            header?: never;
            path: {
                experiment_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Page_ModelVersionItem_"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    clean_outputs: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                experiment_id: number;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["OutputsPolicyIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OutputsCleaningOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    preview_outputs_cleaning: {
        parameters: {
            query?: {
                older_than_days?: number | null;
                max_bytes?: number | null;
                keep_best?: number;
            };
            header?: never;
            path: {
                experiment_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OutputsCleaningPlanOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    list_scaling_reports: {
        parameters: {
            query?: {
                /** @description `next` of the page before; leave out for the first. */
                cursor?: string | null;
                /** @description Entries per page. */
                limit?: number;
            };
            header?: never;
            path: {
                experiment_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Page_ScalingReportOut_"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    create_scaling_report: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                experiment_id: number;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ScalingIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ScalingReportDetail"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_experiment_search: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                experiment_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SearchOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_search_importance: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                experiment_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ImportanceOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    set_search_limits: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                experiment_id: number;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SearchLimitsIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SearchOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    enqueue_trial: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                experiment_id: number;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["EnqueueIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PointOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_search_point: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                experiment_id: number;
                point: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PointOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_search_results: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                experiment_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SearchResultsOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    ask_search: {
        parameters: {
            query?: never;
            header?: {
                /** @description A repetition with the same key and body changes nothing and is answered alike. */
                "idempotency-key"?: string | null;
            };
            path: {
                experiment_id: number;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["AskIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AskOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    close_search: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                experiment_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SearchOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    tell_search: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                experiment_id: number;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["TellIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TellOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_experiment_series: {
        parameters: {
            query: {
                name: string;
                max_points?: number;
                max_trials?: number;
            };
            header?: never;
            path: {
                experiment_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ExperimentSeriesReply"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    list_experiment_trials: {
        parameters: {
            query?: {
                state?: components["schemas"]["TrialState"][] | null;
                /** @description Only this trial. */
                no?: number | null;
                /** @description A condition on a column, with blanks: hparam.lr < 0.1 */
                where?: string[] | null;
                /** @description A column; with - before it the largest first. Columns are no, state, metric, step, started, ended, elapsed, hparam.<name> and metric.<last|min|max|best>.<name>. */
                sort?: string;
                /** @description `next` of the page before; leave out for the first. */
                cursor?: string | null;
                /** @description Entries per page. */
                limit?: number;
            };
            header?: never;
            path: {
                experiment_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Page_TrialOut_"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    archive_experiment: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                experiment_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ExperimentOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    close_experiment: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                experiment_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ExperimentOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    continue_experiment: {
        parameters: {
            query?: never;
            header?: {
                /** @description A repetition with the same key and body changes nothing and is answered alike. */
                "idempotency-key"?: string | null;
            };
            path: {
                experiment_id: number;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ContinueIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ExperimentDetail"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    fork_experiment: {
        parameters: {
            query?: never;
            header?: {
                /** @description A repetition with the same key and body changes nothing and is answered alike. */
                "idempotency-key"?: string | null;
            };
            path: {
                experiment_id: number;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ForkIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ExperimentDetail"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    kill_experiment: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                experiment_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ExperimentOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    pause_experiment: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                experiment_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ExperimentOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    resume_experiment: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                experiment_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ExperimentOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    stop_experiment: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                experiment_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ExperimentOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    unarchive_experiment: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                experiment_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ExperimentOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    run_bulk: {
        parameters: {
            query?: never;
            header?: {
                /** @description A repetition with the same key and body changes nothing and is answered alike. */
                "idempotency-key"?: string | null;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["BulkIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BulkOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    preview_bulk: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["BulkIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BulkPreviewOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    list_experiment_columns: {
        parameters: {
            query?: {
                project?: string | null;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ExperimentColumnsOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    count_experiments: {
        parameters: {
            query?: {
                state?: components["schemas"]["ExperimentState"][] | null;
                project?: string | null;
                /** @description name=value, or the name alone for any value. */
                label?: string[] | null;
                /** @description By user name. */
                owner?: string | null;
                /** @description Part of the name. */
                q?: string | null;
                archived?: "exclude" | "include" | "only";
                /** @description A condition on a column, with blanks: metric.last.val/loss < 0.5, or hparam.lr is missing */
                where?: string[] | null;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ExperimentCountOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    group_experiments: {
        parameters: {
            query: {
                /** @description A column: project, owner, state, config.<path>, label.<name>, hparam.<name>, … */
                by: string;
                /** @description Columns of numbers, for statistics. */
                column?: string[] | null;
                state?: components["schemas"]["ExperimentState"][] | null;
                project?: string | null;
                /** @description name=value, or the name alone for any value. */
                label?: string[] | null;
                /** @description By user name. */
                owner?: string | null;
                /** @description Part of the name. */
                q?: string | null;
                archived?: "exclude" | "include" | "only";
                /** @description A condition on a column, with blanks: metric.last.val/loss < 0.5, or hparam.lr is missing */
                where?: string[] | null;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ExperimentGroupsOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    preview_experiment: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ExperimentIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PreviewOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_document_schema: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        [key: string]: unknown;
                    };
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_export: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                export_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ExportOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    delete_export: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                export_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    download_export: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                export_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/octet-stream": unknown;
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_outputs_preview: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                export_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "image/*": unknown;
                    "text/plain": unknown;
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    list_join_tokens: {
        parameters: {
            query?: {
                /** @description `next` of the page before; leave out for the first. */
                cursor?: string | null;
                /** @description Entries per page. */
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Page_JoinTokenOut_"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    create_join_token: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["JoinTokenIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JoinTokenCreated"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    revoke_join_token: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                token_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    create_live_ticket: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LiveTicket"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_model_blob: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                sha256: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ModelBlobOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    put_model_blob: {
        parameters: {
            query: {
                /** @description Size of the whole file. */
                size_bytes: number;
                /** @description Where this piece begins. */
                offset?: number;
            };
            header?: never;
            path: {
                sha256: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/octet-stream": unknown;
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ModelBlobOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    list_models: {
        parameters: {
            query?: {
                project?: string | null;
                /** @description Part of the name or description. */
                q?: string | null;
                /** @description `next` of the page before; leave out for the first. */
                cursor?: string | null;
                /** @description Entries per page. */
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Page_ModelItem_"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    create_model: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ModelIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ModelItem"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_model: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Name of the model. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ModelItem"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    delete_model: {
        parameters: {
            query?: {
                /** @description Also what an alias names; the alias is removed. */
                force?: boolean;
            };
            header?: never;
            path: {
                /** @description Name of the model. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    update_model: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Name of the model. */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ModelPatch"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ModelItem"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_model_alias: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Name of the model. */
                name: string;
                alias: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ModelVersionOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    set_model_alias: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Name of the model. */
                name: string;
                alias: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["AliasIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ModelAliasOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    delete_model_alias: {
        parameters: {
            query?: {
                reason?: string;
            };
            header?: never;
            path: {
                /** @description Name of the model. */
                name: string;
                alias: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    list_model_alias_moves: {
        parameters: {
            query?: {
                alias?: string | null;
                /** @description `next` of the page before; leave out for the first. */
                cursor?: string | null;
                /** @description Entries per page. */
                limit?: number;
            };
            header?: never;
            path: {
                /** @description Name of the model. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Page_ModelAliasMoveOut_"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    list_model_promotions: {
        parameters: {
            query?: {
                /** @description `next` of the page before; leave out for the first. */
                cursor?: string | null;
                /** @description Entries per page. */
                limit?: number;
            };
            header?: never;
            path: {
                /** @description Name of the model. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Page_ModelPromotionOut_"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    create_model_promotion: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Name of the model. */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["PromotionIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ModelPromotionOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    delete_model_promotion: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Name of the model. */
                name: string;
                promotion_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    list_model_versions: {
        parameters: {
            query?: {
                /** @description `next` of the page before; leave out for the first. */
                cursor?: string | null;
                /** @description Entries per page. */
                limit?: number;
            };
            header?: never;
            path: {
                /** @description Name of the model. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Page_ModelVersionItem_"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    register_model_version: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Name of the model. */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["VersionIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ModelVersionOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_model_version: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Name of the model. */
                name: string;
                /** @description Number of the version. */
                number: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ModelVersionOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    delete_model_version: {
        parameters: {
            query?: {
                /** @description Also what an alias names; the alias is removed. */
                force?: boolean;
            };
            header?: never;
            path: {
                /** @description Name of the model. */
                name: string;
                /** @description Number of the version. */
                number: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    update_model_version: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Name of the model. */
                name: string;
                /** @description Number of the version. */
                number: number;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["VersionPatch"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ModelVersionOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    list_model_version_exports: {
        parameters: {
            query?: {
                /** @description `next` of the page before; leave out for the first. */
                cursor?: string | null;
                /** @description Entries per page. */
                limit?: number;
            };
            header?: never;
            path: {
                /** @description Name of the model. */
                name: string;
                /** @description Number of the version. */
                number: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Page_ModelExportJobOut_"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    download_model_file: {
        parameters: {
            query: {
                path: string;
                export?: number | null;
            };
            header?: never;
            path: {
                /** @description Name of the model. */
                name: string;
                /** @description Number of the version. */
                number: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/octet-stream": unknown;
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    fetch_model_file: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Name of the model. */
                name: string;
                /** @description Number of the version. */
                number: number;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ModelFetchIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ModelFetchOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_model_lineage: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Name of the model. */
                name: string;
                /** @description Number of the version. */
                number: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ModelLineageOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    list_model_version_uses: {
        parameters: {
            query?: {
                /** @description `next` of the page before; leave out for the first. */
                cursor?: string | null;
                /** @description Entries per page. */
                limit?: number;
            };
            header?: never;
            path: {
                /** @description Name of the model. */
                name: string;
                /** @description Number of the version. */
                number: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Page_ModelUseOut_"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    list_model_leaderboards: {
        parameters: {
            query?: {
                /** @description Only of this data set. */
                data?: string | null;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LeaderboardOut"][];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    list_nodes: {
        parameters: {
            query?: {
                cursor?: string | null;
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Page_NodeOut_"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_node: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                node_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["NodeOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    remove_node: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                node_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    update_node: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                node_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NodePatch"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["NodeOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    list_node_allocations: {
        parameters: {
            query?: {
                cursor?: string | null;
                limit?: number;
            };
            header?: never;
            path: {
                node_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Page_NodeAllocationOut_"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    list_node_events: {
        parameters: {
            query?: {
                cursor?: string | null;
                limit?: number;
            };
            header?: never;
            path: {
                node_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Page_EventOut_"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_node_system_metrics: {
        parameters: {
            query?: {
                /** @description How far back. */
                minutes?: number;
            };
            header?: never;
            path: {
                node_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SystemMetricsOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    release_node: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                node_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["NodeOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    list_inbox: {
        parameters: {
            query?: {
                unread?: boolean;
                /** @description `next` of the page before; leave out for the first. */
                cursor?: string | null;
                /** @description Entries per page. */
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Page_InboxEntryOut_"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    count_inbox: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InboxCountOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    read_inbox: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["InboxReadIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InboxCountOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_notification_options: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["NotificationOptionsOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    list_notification_rules: {
        parameters: {
            query?: {
                /** @description Project that owns them; left out: those of your own. */
                project?: string | null;
                /** @description `next` of the page before; leave out for the first. */
                cursor?: string | null;
                /** @description Entries per page. */
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Page_NotificationRuleOut_"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    create_notification_rule: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NotificationRuleIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["NotificationRuleOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    delete_notification_rule: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                rule_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    update_notification_rule: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                rule_id: number;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NotificationRulePatch"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["NotificationRuleOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    list_notification_targets: {
        parameters: {
            query?: {
                /** @description Project that owns them; left out: those of your own. */
                project?: string | null;
                /** @description `next` of the page before; leave out for the first. */
                cursor?: string | null;
                /** @description Entries per page. */
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Page_NotificationTargetOut_"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    create_notification_target: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NotificationTargetIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["NotificationTargetMade"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    delete_notification_target: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                target_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    update_notification_target: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                target_id: number;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NotificationTargetPatch"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["NotificationTargetMade"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    list_notification_deliveries: {
        parameters: {
            query?: {
                /** @description `next` of the page before; leave out for the first. */
                cursor?: string | null;
                /** @description Entries per page. */
                limit?: number;
            };
            header?: never;
            path: {
                target_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Page_DeliveryOut_"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    test_notification_target: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                target_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    list_panels: {
        parameters: {
            query?: {
                experiment?: number | null;
                project?: string | null;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Page_PanelOut_"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    create_panel: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["PanelIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PanelOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    delete_panel: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                panel_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    update_panel: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                panel_id: number;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["PanelPatch"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PanelOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    create_plan: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["PlanIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PlanOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    list_pools: {
        parameters: {
            query?: {
                /** @description `next` of the page before; leave out for the first. */
                cursor?: string | null;
                /** @description Entries per page. */
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Page_PoolOut_"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    set_pool: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["PoolIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PoolOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    delete_pool: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    list_pilots: {
        parameters: {
            query?: {
                /** @description `next` of the page before; leave out for the first. */
                cursor?: string | null;
                /** @description Entries per page. */
                limit?: number;
            };
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Page_PilotOut_"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_pool_provider: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ProviderOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    set_pool_provider: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ProviderIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ProviderOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    delete_pool_provider: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    list_preflights: {
        parameters: {
            query?: {
                /** @description `next` of the page before; leave out for the first. */
                cursor?: string | null;
                /** @description Entries per page. */
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Page_PreflightOut_"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    create_preflight: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["PreflightIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PreflightOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_preflight: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                preflight_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PreflightOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    list_projects: {
        parameters: {
            query?: {
                /** @description `next` of the page before; leave out for the first. */
                cursor?: string | null;
                /** @description Entries per page. */
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Page_ProjectOut_"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    create_project: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ProjectIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ProjectOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_project: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ProjectOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    delete_project: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    update_project: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ProjectPatch"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ProjectOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    list_project_events: {
        parameters: {
            query?: {
                /** @description `next` of the page before; leave out for the first. */
                cursor?: string | null;
                /** @description Entries per page. */
                limit?: number;
            };
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Page_EventOut_"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    list_project_secrets: {
        parameters: {
            query?: {
                /** @description `next` of the page before; leave out for the first. */
                cursor?: string | null;
                /** @description Entries per page. */
                limit?: number;
            };
            header?: never;
            path: {
                project: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Page_SecretOut_"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    set_project_secret: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                project: string;
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SecretIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SecretOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    delete_project_secret: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                project: string;
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    list_queue: {
        parameters: {
            query?: {
                project?: string | null;
                cursor?: string | null;
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Page_QueueItem_"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    move_in_queue: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["QueueMove"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["QueueMoved"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_retention: {
        parameters: {
            query?: {
                /** @description As if this were set. */
                metric_days?: number | null;
                /** @description As if this were set. */
                log_days?: number | null;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RetentionOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_scaling_report: {
        parameters: {
            query?: {
                /** @description World sizes to predict. Default: up to 8 times the largest measured one. */
                slots?: number[] | null;
                /** @description Other networks to predict, by their bandwidth in Mbit/s. */
                bandwidth_mbit_per_s?: number[] | null;
                /** @description Of those networks, in microseconds per message. Default: the measured one. */
                latency_us?: number | null;
            };
            header?: never;
            path: {
                report_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ScalingReportDetail"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    export_scaling_report: {
        parameters: {
            query?: {
                format?: "markdown" | "csv";
                /** @description World sizes to predict. Default: up to 8 times the largest measured one. */
                slots?: number[] | null;
                /** @description Other networks to predict, by their bandwidth in Mbit/s. */
                bandwidth_mbit_per_s?: number[] | null;
                /** @description Of those networks, in microseconds per message. Default: the measured one. */
                latency_us?: number | null;
            };
            header?: never;
            path: {
                report_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": unknown;
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    cancel_scaling_report: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                report_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ScalingReportDetail"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    list_secrets: {
        parameters: {
            query?: {
                /** @description `next` of the page before; leave out for the first. */
                cursor?: string | null;
                /** @description Entries per page. */
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Page_SecretOut_"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    set_secret: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SecretIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SecretOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    delete_secret: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    list_curves: {
        parameters: {
            query: {
                /** @description Id; repeatable. */
                trial: number[];
                /** @description Metric name; repeatable. */
                name: string[];
                /** @description Absent: the lowest that reports a name. */
                rank?: number[];
                from_step?: number | null;
                to_step?: number | null;
                max_points?: number;
                /** @description step, time and relative are drawn from what every answer holds. epoch is worked out from the trial's latest epoch and step. metric takes the values of x_name, such as a count of samples or tokens that the training logs. */
                x?: "step" | "time" | "relative" | "epoch" | "metric";
                x_name?: string | null;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CurvesReply"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    list_tokens: {
        parameters: {
            query?: {
                /** @description `next` of the page before; leave out for the first. */
                cursor?: string | null;
                /** @description Entries per page. */
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Page_TokenOut_"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    create_token: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["TokenIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TokenCreated"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    revoke_token: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                token_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_trial: {
        parameters: {
            query?: {
                /** @description headline: of the metrics only the search's, losses, and what Muster itself measures of a step, for trials of thousands. */
                summary?: "all" | "headline";
            };
            header?: never;
            path: {
                trial_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TrialDetail"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    list_trial_checkpoints: {
        parameters: {
            query?: {
                /** @description `next` of the page before; leave out for the first. */
                cursor?: string | null;
                /** @description Entries per page. */
                limit?: number;
            };
            header?: never;
            path: {
                trial_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Page_CheckpointOut_"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    list_trial_diagnoses: {
        parameters: {
            query?: {
                /** @description `next` of the page before; leave out for the first. */
                cursor?: string | null;
                /** @description Entries per page. */
                limit?: number;
            };
            header?: never;
            path: {
                trial_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Page_DiagnosisOut_"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    diagnose_trial: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                trial_id: number;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["DiagnoseIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DiagnosisOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    list_trial_evaluations: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                trial_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EvaluationOut"][];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    list_trial_events: {
        parameters: {
            query?: {
                /** @description `next` of the page before; leave out for the first. */
                cursor?: string | null;
                /** @description Entries per page. */
                limit?: number;
            };
            header?: never;
            path: {
                trial_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Page_EventOut_"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    list_trial_exports: {
        parameters: {
            query?: {
                /** @description `next` of the page before; leave out for the first. */
                cursor?: string | null;
                /** @description Entries per page. */
                limit?: number;
            };
            header?: never;
            path: {
                trial_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Page_ExportOut_"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    list_trial_groups: {
        parameters: {
            query?: {
                /** @description Attempt number; the current one by default. */
                attempt?: number | null;
                /** @description `next` of the page before; leave out for the first. */
                cursor?: string | null;
                /** @description Entries per page. */
                limit?: number;
            };
            header?: never;
            path: {
                trial_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Page_ProcessGroupOut_"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    list_trial_log_lines: {
        parameters: {
            query?: {
                /** @description As the text of a line says. Absent: all. */
                level?: ("debug" | "info" | "warning" | "error" | "critical")[];
                /** @description Only lines with this text. */
                q?: string;
                /** @description `q` is a pattern of RE2 (linear time, no back-references). */
                regex?: boolean;
                match_case?: boolean;
                /** @description -1: the launcher. Absent: all. */
                rank?: number[];
                stream?: ("stdout" | "stderr") | null;
                attempt?: number | null;
                node?: string[];
                /** @description Only lines received from this time on. */
                since?: string | null;
                /** @description Only lines received before this time. */
                until?: string | null;
                /** @description Begin at this line: stream_id:no, as lines say them. */
                line?: string | null;
                /** @description Begin at the first line received then or later. */
                time?: string | null;
                /** @description Begin at this part of the longest stream's lines. */
                fraction?: number | null;
                cursor?: string | null;
                limit?: number;
                from?: ("head" | "tail") | null;
            };
            header?: never;
            path: {
                trial_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LogPage"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    download_trial_log: {
        parameters: {
            query?: {
                rank?: number;
                stream?: "stdout" | "stderr";
                attempt?: number | null;
            };
            header?: never;
            path: {
                trial_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/plain": unknown;
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_trial_log_histogram: {
        parameters: {
            query?: {
                /** @description -1: the launcher. Absent: all. */
                rank?: number[];
                stream?: ("stdout" | "stderr") | null;
                attempt?: number | null;
                node?: string[];
                /** @description Only lines received from this time on. */
                since?: string | null;
                /** @description Only lines received before this time. */
                until?: string | null;
            };
            header?: never;
            path: {
                trial_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LogHistogram"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    list_trial_log_streams: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                trial_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Page_LogStreamOut_"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    preview_trial_log_values: {
        parameters: {
            query: {
                /** @description As in `metrics.from_log`: a pattern of RE2 or the name of a preset. */
                pattern: string;
                /** @description Name of the metric without a group for it. */
                name?: string;
                /** @description Pattern that a line must match, too. */
                line?: string;
                /** @description -1: the launcher. Absent: all. */
                rank?: number[];
                stream?: ("stdout" | "stderr") | null;
                attempt?: number | null;
                node?: string[];
                /** @description Only lines received from this time on. */
                since?: string | null;
                /** @description Only lines received before this time. */
                until?: string | null;
            };
            header?: never;
            path: {
                trial_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LogValuesOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    list_media: {
        parameters: {
            query?: {
                /** @description Absent: all. */
                name?: string[];
                /** @description Absent: all. */
                kind?: ("image" | "figure" | "histogram" | "text" | "table" | "pr_curve" | "confusion_matrix" | "audio" | "video")[];
                rank?: number | null;
                from_step?: number | null;
                to_step?: number | null;
                order?: "asc" | "desc";
                /** @description `next` of the page before; leave out for the first. */
                cursor?: string | null;
                /** @description Entries per page. */
                limit?: number;
            };
            header?: never;
            path: {
                trial_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Page_MediaItemOut_"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    list_media_series: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                trial_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MediaOverviewOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_media_content: {
        parameters: {
            query?: never;
            header?: {
                "if-none-match"?: string | null;
                Range?: string | null;
            };
            path: {
                trial_id: number;
                media_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/octet-stream": unknown;
                };
            };
            /** @description The range that was asked for. */
            206: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The client has it. */
            304: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    fetch_media_content: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                trial_id: number;
                media_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MediaContentOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    list_trial_metrics: {
        parameters: {
            query?: {
                /** @description non_finite: of the series only those that hold NaN or infinities; all names and ranks are there in any case. */
                items?: "all" | "non_finite";
            };
            header?: never;
            path: {
                trial_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SeriesList"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    list_outputs: {
        parameters: {
            query?: {
                /** @description Beginning of the paths. */
                prefix?: string;
                /** @description Pattern of the paths, such as `*.pt`; `*` matches `/`. */
                glob?: string;
                /** @description Absent: all. */
                state?: ("kept" | "growing" | "link" | "left_out")[];
                sort?: "path" | "size" | "modified";
                order?: "asc" | "desc";
                /** @description `next` of the page before; leave out for the first. */
                cursor?: string | null;
                /** @description Entries per page. */
                limit?: number;
            };
            header?: never;
            path: {
                trial_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Page_OutputFileOut_"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_outputs_summary: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                trial_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OutputsSummaryOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    request_outputs_export: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                trial_id: number;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["OutputsExportIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OutputsExportOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    request_outputs_preview: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                trial_id: number;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["OutputsPreviewIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ExportOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_trial_performance: {
        parameters: {
            query?: {
                /** @description Attempt number; the current one by default. */
                attempt?: number | null;
                /** @description About how many of the newest rows of each rank count. */
                rows?: number;
            };
            header?: never;
            path: {
                trial_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PerformanceOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_trial_pipeline_step: {
        parameters: {
            query?: {
                /** @description Attempt number; the current one by default. */
                attempt?: number | null;
                /** @description Which of several pipelines beside each other. */
                pipeline?: number;
            };
            header?: never;
            path: {
                trial_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PipelineStepOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_trial_plan: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                trial_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TrialPlanOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    list_trial_profiles: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                trial_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Page_ProfileOut_"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    profile_trial: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                trial_id: number;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ProfileIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ProfileOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_trial_profile: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                trial_id: number;
                /** @description Which window of the trial. */
                no: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ProfileOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    download_trial_trace: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                trial_id: number;
                /** @description Which window of the trial. */
                no: number;
                /** @description A global rank. */
                rank: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/gzip": unknown;
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_trial_progress: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                trial_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ProgressOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_trial_reproduction: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                trial_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ReproductionOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_trial_series: {
        parameters: {
            query?: {
                /** @description Metric name; repeatable. Absent: all. */
                name?: string[];
                /** @description Rank; repeatable. Absent: all. */
                rank?: number[];
                from_step?: number | null;
                to_step?: number | null;
                max_points?: number;
            };
            header?: never;
            path: {
                trial_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SeriesReply"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    export_trial_series: {
        parameters: {
            query?: {
                /** @description Metric name; repeatable. Absent: all. */
                name?: string[];
                /** @description Rank; repeatable. Absent: all. */
                rank?: number[];
                from_step?: number | null;
                to_step?: number | null;
            };
            header?: never;
            path: {
                trial_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/csv": unknown;
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    export_trial_series_lines: {
        parameters: {
            query?: {
                /** @description Metric name; repeatable. Absent: all. */
                name?: string[];
                /** @description Rank; repeatable. Absent: all. */
                rank?: number[];
                from_step?: number | null;
                to_step?: number | null;
            };
            header?: never;
            path: {
                trial_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/x-ndjson": unknown;
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    export_trial_series_parquet: {
        parameters: {
            query?: {
                /** @description Metric name; repeatable. Absent: all. */
                name?: string[];
                /** @description Rank; repeatable. Absent: all. */
                rank?: number[];
                from_step?: number | null;
                to_step?: number | null;
            };
            header?: never;
            path: {
                trial_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/vnd.apache.parquet": unknown;
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_trial_stacks: {
        parameters: {
            query?: {
                /** @description Attempt number; the current one by default. */
                attempt?: number | null;
                /** @description Which time; the last by default. */
                no?: number | null;
            };
            header?: never;
            path: {
                trial_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StacksOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_trial_system_metrics: {
        parameters: {
            query?: {
                /** @description Names of nodes; by default the first 8 of the newest attempt. */
                node?: string[] | null;
            };
            header?: never;
            path: {
                trial_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TrialSystemMetricsOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    list_tracked_runs: {
        parameters: {
            query?: {
                /** @description `next` of the page before; leave out for the first. */
                cursor?: string | null;
                /** @description Entries per page. */
                limit?: number;
            };
            header?: never;
            path: {
                trial_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Page_TrackedRunOut_"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    list_trial_workers: {
        parameters: {
            query?: {
                /** @description Attempt number; the current one by default. */
                attempt?: number | null;
                /** @description `next` of the page before; leave out for the first. */
                cursor?: string | null;
                /** @description Entries per page. */
                limit?: number;
            };
            header?: never;
            path: {
                trial_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Page_WorkerOut_"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    kill_trial: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                trial_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TrialOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    promote_trial: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                trial_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TrialOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    ask_trial_stacks: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                trial_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StacksOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    stop_trial: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                trial_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TrialOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    list_users: {
        parameters: {
            query?: {
                /** @description `next` of the page before; leave out for the first. */
                cursor?: string | null;
                /** @description Entries per page. */
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Page_UserOut_"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    create_user: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["UserIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UserOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    update_user: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                user_id: number;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["UserPatch"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UserOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    list_saved_views: {
        parameters: {
            query?: {
                page?: ("experiments" | "compare") | null;
                /** @description `next` of the page before; leave out for the first. */
                cursor?: string | null;
                /** @description Entries per page. */
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Page_SavedViewOut_"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    create_saved_view: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SavedViewIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SavedViewOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    delete_saved_view: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                view_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    update_saved_view: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                view_id: number;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SavedViewPatch"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SavedViewOut"];
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    docs: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/html": string;
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    healthz: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Healthy"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_prometheus_metrics: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/plain": unknown;
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    openapi: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": unknown;
                };
            };
            /** @description Not signed in */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Signed in, but not allowed */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description The database does not answer; see Retry-After */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    readyz: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Ready"];
                };
            };
            /** @description The request cannot work as sent */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests; see Retry-After */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
            /** @description Not now */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Ready"];
                };
            };
            /** @description Whatever else may be wrong; the code says what */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
}
