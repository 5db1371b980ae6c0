"""What belongs to somebody, of every kind that an address names."""

import datetime as dt
import functools

import pytest
from sqlalchemy import select

from muster_server.db.models import (
    CheckpointRow,
    CronScheduleRow,
    DeploymentRevisionRow,
    DeploymentRow,
    DiagnosisRow,
    ExportRow,
    ModelAliasRow,
    ModelPromotionRow,
    ModelRow,
    ModelVersionRow,
    PanelRow,
    ReportCommentRow,
    ReportLinkRow,
    ReportRow,
    ScalingReportRow,
    UserRow,
)
from support.data import NOW, add_attempt, add_experiment, add_trial


@pytest.fixture
def theirs(database, make_user_token):
    """What ada, a member, has: the ids that stand in addresses."""
    make_user_token("member", username="ada")
    return _add_one_of_each(database, "ada", "default", "net")


@pytest.fixture
def add_one_of_each(database):
    """`add_one_of_each(username, project, name)` adds what a user may have in a project, of each kind, and
    returns the ids."""
    return functools.partial(_add_one_of_each, database)


def _add_one_of_each(database, username, project, name):
    with database.transaction() as session:
        experiment = add_experiment(session, project=project)
        experiment.owner_id = session.scalar(select(UserRow.id).where(UserRow.username == username))
        trial = add_trial(session, experiment)
        add_attempt(session, trial)
        session.flush()
        common = {"trial_id": trial.id, "step": 1, "storage_id": "s", "node_name": "n"}
        checkpoint = CheckpointRow(
            **common, attempt_no=1, path="step-1", state="complete", size_bytes=1, files={}, metrics={},
            created_at=NOW,
        )  # fmt: skip
        session.add(checkpoint)
        session.flush()
        export = ExportRow(
            **common, checkpoint_id=checkpoint.id, trial_no=1, experiment_id=experiment.id, path="p",
            room_bytes=1, requested_by="user:ada", requested_at=NOW,
            expires_at=NOW + dt.timedelta(days=1),
        )  # fmt: skip
        diagnosis = DiagnosisRow(
            trial_id=trial.id, state="running", plan={}, created_by="ada", created_at=NOW
        )
        report = ScalingReportRow(
            experiment_id=experiment.id, state="running", mode="strong", num_steps=10, points=[],
            requested_by="user:ada", created_at=NOW,
        )  # fmt: skip
        panel = PanelRow(
            project_id=experiment.project_id, experiment_id=experiment.id,
            owner_id=experiment.owner_id, position=0, title="p", kind="line", expressions=["loss"],
            text="", created_at=NOW, changed_at=NOW,
        )  # fmt: skip
        common = {"created_at": NOW, "created_by": "user:ada"}
        model = ModelRow(
            **common, name=name, project_id=experiment.project_id, owner_id=experiment.owner_id,
            last_number=1, updated_at=NOW,
        )  # fmt: skip
        deployment = DeploymentRow(
            **common, project_id=experiment.project_id, owner_id=experiment.owner_id, name=name,
            wants="run", num_replicas=1, slots=1, options={}, key="k", target=1, target_since=NOW,
            last_revision=1, updated_at=NOW,
        )  # fmt: skip
        schedule = CronScheduleRow(
            project_id=experiment.project_id, owner_id=experiment.owner_id, name=name,
            submission={"document": f"name: {name}\nproject: {project}\nentrypoint: -m x\n"},
            cron="0 2 * * *", timezone="UTC", overlap="skip", next_at=NOW, created_at=NOW,
        )  # fmt: skip
        session.add(schedule)
        session.add_all([export, diagnosis, report, panel, model, deployment])
        session.flush()
        # A report of runs, which addresses call by the same name as one of scaling.
        page = ReportRow(
            id=report.id, project_id=experiment.project_id, owner_id=experiment.owner_id,
            title=f"{name} report", blocks=[], created_at=NOW, changed_at=NOW,
        )  # fmt: skip
        session.add(page)
        session.flush()
        link = ReportLinkRow(
            **common, report_id=page.id, secret_hash=name, expires_at=NOW + dt.timedelta(days=1)
        )
        comment = ReportCommentRow(
            report_id=page.id, author_id=experiment.owner_id, text=name, created_at=NOW
        )
        session.add_all([link, comment])
        session.flush()
        version = ModelVersionRow(
            **common, model_id=model.id, number=1, state="ready", source="checkpoint",
            checkpoint_id=checkpoint.id, lineage={}, metrics={}, updated_at=NOW,
        )  # fmt: skip
        promotion = ModelPromotionRow(
            **common, model_id=model.id, experiment_id=experiment.id, alias="best", metric="loss",
            goal="min", state="waiting",
        )  # fmt: skip
        revision = DeploymentRevisionRow(
            **common, deployment_id=deployment.id, number=1, reference=f"{name}@best", model=name,
            version=1, state="rolling_out",
        )  # fmt: skip
        session.add_all([version, promotion, revision])
        session.flush()
        session.add(
            ModelAliasRow(
                model_id=model.id,
                name="best",
                version_id=version.id,
                moved_at=NOW,
                moved_by="user:ada",
            )
        )
        return {
            "experiment_id": experiment.id,
            "trial_id": trial.id,
            "checkpoint_id": checkpoint.id,
            "export_id": export.id,
            "diagnosis_id": diagnosis.id,
            "report_id": report.id,
            "panel_id": panel.id,
            "name": name,
            "number": 1,
            "alias": "best",
            "promotion_id": promotion.id,
            "schedule_id": schedule.id,
            "comment_id": comment.id,
            "link_id": link.id,
        }
