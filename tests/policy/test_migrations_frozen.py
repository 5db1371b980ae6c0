"""Revisions that exist are never edited: databases have run them, and would not run them again."""

from __future__ import annotations

import ast
import hashlib
from pathlib import Path

VERSIONS = Path(__file__).resolve().parents[2] / "migrations" / "versions"
DIGESTS = {
    "0001_initial.py": "9264bf49edcf20fe82caea54a93dcf776a9734a572f57376160de8314211aaf5",
    "0002_control_plane.py": "2c3945944b85a4d58d72d96d452f84b8dcabb6fbc3611e31597e6f229564b4a4",
    "0003_repair.py": "d60817c1f0285a041d1af7c10de12044bac0ec700af15a1b610a2d92e2ce206b",
    "0004_controller_passes.py": "5b7d61a5b2e281adc005f34ba89546a5f49073c0c721f1bbfa1d15157e4195f2",
    "0005_token_parents.py": "4a9ea5cd45bf3fbb3a7b16b77f3ef6b2485023f1e5d256aea7639e66956e952c",
    "0006_layer_tables.py": "ff059d73a2f4c670a743577db62691b7221755ec014631efb6fea4fd9e0baec4",
    "0007_hearing.py": "f4a69d29b43a2169d681196313fbdc06f5ddae8b3cbf66c8efb52431c6692e86",
    "0008_left_out.py": "f52b0cbdafcf347cff685b4ecd9dcb59bd472a9e4a36ca3024879f9a1b957ce2",
    "0009_tunnels.py": "bf67e6fd83e7e198341b5772c0aade41e3ebaccf58b468ebf080524c094ae604",
    "0010_outputs.py": "dcce082dc91a643b7fd6912d45d9d475d99a0146d611171451d4bd1b3ddb744e",
    "0011_secrets.py": "a246ea5a3a874a9b0a567bc24a9da94101ab330c1be40521f73a1af1dbbbcd82",
    "0012_dependencies.py": "fb5315b8ffe883fab742cba26c19921b604af23effd3e2e19013a51b75212bba",
    "0013_outputs_retention.py": "425071c736dd8b2ae4f649b39ea2249de487ec5f6f2ac22b64a8ed0293cb868e",
    "0014_tracked_runs.py": "3c6df08597261f55987f8966525fadb946eb941d078a36aad103eb0d90d45013",
    "0015_adopted_checkpoints.py": "46d4204c2dbdec46599fe54a85d86a3838211e25405899a7d6a1fadbf47ab4f7",
    "0016_pool_isolation.py": "ccb766f41de7350364fcb105e13a9fb614e13a652985748244b72d4714324b60",
    "0017_unmanaged_runs.py": "e4b0d9e46cddc3f72b212389e5cc5453e7978bdb23488d9ee3bec994ffd458a3",
    "0018_notifications.py": "d9b14c7ba1318687f01bdcfbf491d62f42b7ca7244e756f01ce1c90e28370385",
    "0019_media.py": "a5186e05b4a44cfd41ea0fd94dbfc7a01c4c4f01e7cc5341b35c93834d9403fe",
    "0020_panels.py": "7566e769494c3a03eb5f6af1d6705908131dc49b950ffa87b09c6cb700c94f39",
    "0021_dismissals.py": "bf8e2f87866aaa42ddcb670bbb8631d2293e6526956990f7615f1468d235ce14",
    "0022_reproduction.py": "d825de08bd0cb394035599da794df331a6393a0dcaf76ca8cf77cfcc06f55f25",
    "0023_pilots.py": "1ab862fc8cfb453efe81ab5e2aefe6170753f11fa5d57c0080bf80b34da373a0",
    "0024_pool_costs.py": "9d613b6dc8445a51981d0c8d8e92871b647df199b835f0c6909f3c4a4e3de17d",
    "0025_models.py": "6063d6ca5d5aa96aa2d056d0ae1142fbb24734a5aa48360f554a6f779c5caf1d",
    "0026_pool_containers.py": "91bf2b3741971ade45d2ee28e9904abedd93a6c62d0391d12002e782db20c0fe",
    "0027_model_uses.py": "7c22ffa8bc237b548751cd8e2a5702bca259d2cda6193eb82942eae36a3a51ae",
    "0028_predictions.py": "a04a2e63bf11dd03ce5509590caf21735281b772141e0abde9ffce47b9b72f60",
    "0029_deployments.py": "b55924c69eeedb172ae2f3bda95423fbd677f6ff50b3b7c38103f2148f56466a",
    "0030_slot_problems.py": "92b405ed3e352d367f516abd23801a87ba7d133b3194270c8c18e8343f2a20b0",
    "0031_project_members.py": "dd2ceac48fd801bc7e2be267e2b7b25252e1ce3ee4a762b6082e2adbc69c370b",
    "0032_audit_seals.py": "5ac53129c59ed3ed13b71834d1cfe543df09deaac48149d2951a7016385c43b2",
    "0033_openid.py": "cac56014b390f0ae919af9aa2831eb334b3718ef5ad06b8c90dfeb7d6c988b94",
    "0034_device_logins.py": "63f8ecc39eb7aaf74248a227d92840bc2f4d21489c506d0f193628011fb223c2",
    "0035_service_accounts.py": "cdb9cc9d3ebdab383efd5ee73c06a55f30abbcfdfc0e404bf23319c84527cf7a",
    "0036_maintenance.py": "b9c4ee9a7c4d86a14218ec7514d0fd7366a27e608f1c5c15eba19e65f1c8071b",
    "0037_second_factors.py": "ce6227fb13220c6d87749694859dfa691fc55c942b5eec4c5e55fed9bf11e92f",
    "0038_scim.py": "8bf7949eb7941259ff23f1acfee0c775c2958781f0b9e2159db58ccd0d150a7b",
    "0039_project_retention.py": "bc343c6324d3fe3f01bd7cc7f92f511c18b3bcfde8317cee8b6b047971c8053c",
    "0040_ledgers.py": "89e6f7726c0342c13c4042a8b85c052cd4536075dd2496dfa6a7a7871108f9b6",
    "0041_guards.py": "11af7980f59cfe6595ec83925e1a050578dbcac0a3a99b6b662c5b4bea2898e9",
    "0042_samples.py": "bd6639c053cdc8af0ea38196651c88f1ba435d105b18773447f2b5613c893804",
    "0043_waste.py": "eac8a188a4fb94438dbdac473bd0e5ead3c7e0b40728c98eee3ccdfdb834af6c",
    "0044_project_guards.py": "f488e4823772160d1ee5d978f5d7ff61417041e1785daaa0b9e2f04d05bc8994",
    "0045_reuse.py": "899898c8f94025fdec7267e8a3122f64668ad64a2b5b15587ac18329832682d5",
    "0046_spares.py": "2c3550eeed99b1832e830fd05f0ae2fac2efdc1813152ac5cb2326eff13ca72c",
    "0047_schedules.py": "e42c2382990a24292fe8e37bed4b9c3ea115369b8faf26f1f3ffd75f3fe06141",
    "0048_skipped_samples.py": "775d4c8bd539a4069adb5128f283b74b64fee455b585b04138e488f31e687ff3",
    "0049_reports.py": "081c1a8a39f5ceabaedd22e841846a508ed01225c9c48ae4357bec8de0515749",
    "0050_reservations.py": "9fdcf4624885ef66ec4da13cf74a2658a644bde8e859ad0996fb26ba1874bd3a",
    "0051_roles.py": "890ec7ba9b7d3cb7fe240819209b804ca51ead42fed6d80569697c56d1bf3cf6",
    "0052_cold_metrics.py": "129e6b1cbd32ec22f832ff3f6cc5d3a61f79dd6c57ba49dc64bfd32e8d8d5223",
}
"""SHA-256 of each revision, from the commit on that adds it. A line is added, never changed."""


def test_revisions_are_as_they_were_when_they_were_added() -> None:
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in _revisions()}
    edited = [name for name, digest in DIGESTS.items() if found.get(name) != digest]
    assert not edited, (
        f"{', '.join(edited)}: edited or removed. Databases that have run a revision never run it "
        "again, so they would lack the change. Restore the file, and put the change into a new "
        "revision: see migrations/README.md"
    )


def test_every_revision_is_held() -> None:
    missing = [path.name for path in _revisions() if path.name not in DIGESTS]
    assert not missing, f"add the SHA-256 of {', '.join(missing)} to DIGESTS in {__file__}"


def test_revisions_do_not_use_the_models() -> None:
    """A revision makes the tables of its time; the models are those of today."""
    users = [path.name for path in _revisions() if "muster_server" in path.read_text()]
    assert not users, f"{', '.join(users)}: say what the tables are in the revision itself"


def test_revisions_only_add_so_that_the_version_before_goes_on() -> None:
    """Servers are replaced one by one: those of the version before work with the new tables."""
    found = []
    for path in _revisions():
        if path.name < "0038":
            continue
        tree = ast.parse(path.read_text())
        (upgrade,) = [
            n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "upgrade"
        ]
        found += [f"{path.name}: {text}" for text in map(_breaks_others, ast.walk(upgrade)) if text]
    assert not found, (
        f"{'; '.join(found)}. Add what replaces it now, and remove it in the release after: see "
        "migrations/README.md"
    )


def _breaks_others(node: ast.AST) -> str:
    """Return what a call does that a process of the version before does not survive; "" if nothing."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        return ""
    if node.func.attr.startswith(("drop_", "rename_", "alter_")):
        return ast.unparse(node)
    if node.func.attr == "add_column":
        column = ast.unparse(node.args[-1])
        if "nullable=False" in column and "server_default" not in column:
            return f"{column} has no server_default"
    return ""


def _revisions() -> list[Path]:
    return sorted(VERSIONS.glob("*.py"))
