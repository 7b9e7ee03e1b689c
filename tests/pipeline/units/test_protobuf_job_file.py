"""Protobuf schemas in a job file: what is read, and the one sentence for what is refused."""

from pathlib import Path

import pytest

from services.pipeline.errors import InvalidJobFile
from services.pipeline.job_file.archive import ArchiveJob
from services.pipeline.job_file.file import parse_job_file
from services.pipeline.spark.value_schema import ValueSchema
from tests.pipeline.protobuf_files import FileDescriptorSet, descriptor_set, file, message

FILE = '[cluster]\nbootstrap_servers = "b:1"\n[lake]\npath = "/lake"\n[jobs.a]\nkind = "archive"\ntopics = ["t"]\n'
SHOP = file(
    "shop.proto",
    message("Order", "int64 id = 1", ".shop.Nothing nothing = 2"),
    message("Nothing"),
    message("Wrapped", "repeated .shop.Nothing nothing = 1"),
    message("Tree", "map<string, .shop.Branch> branches = 1"),
    message("Branch", ".shop.Tree tree = 1"),
    message("Alike", "int32 n = 1", "int32 N = 2"),
)
DESCRIPTORS = descriptor_set(SHOP)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "shop.desc").write_bytes(DESCRIPTORS)
    return tmp_path / "shop.desc"


def job_file(path: Path, more: str) -> str:
    return f'{FILE}schema = {{ format = "protobuf", file = "{path}"{more} }}'


def test_a_message_is_read_from_the_descriptor_set(path: Path) -> None:
    job = parse_job_file(job_file(path, ', message = "shop.Order", framing = "confluent", ids = [7, 1, 7]')).jobs["a"]
    assert isinstance(job, ArchiveJob)
    assert job.schema == ValueSchema("protobuf", "shop.Order", "confluent", DESCRIPTORS, (1, 7))
    assert len(repr(job)) < 1000, "check prints the job, and no descriptors"


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        ("", "schema.message is None; allowed is a message of PATH: .*, shop.Order, shop.Nothing, shop.Wrapped, shop.Tree, "),
        (', message = "Order"', "schema.message is 'Order'; allowed is a message of PATH: .*, shop.Order, "),
        (', message = "shop.Tree.BranchesEntry"', "schema.message is 'shop.Tree.BranchesEntry'; allowed is a message of "),
        (', message = "shop.Tree"', r"can be a struct of columns \(shop.Tree contains itself by shop.Branch.tree\)"),
        (', message = "shop.Branch"', r"can be a struct of columns \(shop.Branch contains itself by shop.Tree.branches\)"),
        (', message = "shop.Nothing"', r"can be a struct of columns \(shop.Nothing has no column\)"),
        (', message = "shop.Wrapped"', r"can be a struct of columns \(shop.Wrapped has no column\)"),
        (', message = "shop.Alike"', r"can be a struct of columns \(shop.Alike has n and N, which are one column to Spark\)"),
        (', message = "shop.Order", ddl = "n INT"', "there is no key jobs.a.schema.ddl"),
        (
            ', message = "shop.Order", framing = "confluent"',
            "schema.ids is missing; it is a list of the registry's ",
        ),
        (', message = "shop.Order", ids = [1]', "jobs.a.schema.ids is not allowed here: only frames have schema ids"),
        (', message = "shop.Order", framing = "confluent", ids = []', r"schema.ids is \[\]; allowed is a list of whole numbers"),
        (
            ', message = "shop.Order", framing = "confluent", ids = [-1]',
            r"schema.ids is \[-1\]; allowed is a list of ",
        ),
        (', message = "shop.Order", framing = "confluent", ids = [true]', r"schema.ids is \[True\]; allowed is a list of "),
        (', message = "shop.Order", framing = "confluent", ids = 1', "schema.ids is 1; allowed is a list of whole numbers"),
        (', message = "shop.Order", framing = "x"', "framing is 'x'; allowed is 'none' or 'confluent'"),
    ],
)
def test_what_a_protobuf_schema_may_not_be(path: Path, more: str, complaint: str) -> None:
    with pytest.raises(InvalidJobFile, match=complaint.replace("PATH", str(path))) as caught:
        parse_job_file(job_file(path, more))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (None, "No such file"),
        (b"message Order {}", "its bytes are no FileDescriptorSet"),
        (b"", "it has no message"),
        (
            FileDescriptorSet(file=[file("a.proto", imports=["google/protobuf/timestamp.proto"])]).SerializeToString(),
            "Depends on file 'google/protobuf/timestamp.proto', but it has not been loaded",
        ),
    ],
)
def test_a_file_that_is_no_descriptor_set_with_its_imports(tmp_path: Path, document: bytes | None, reason: str) -> None:
    if document is not None:
        (tmp_path / "x.desc").write_bytes(document)
    allowed = "allowed is a file that protoc --include_imports --descriptor_set_out has written"
    with pytest.raises(InvalidJobFile, match=rf"schema.file is '.*/x.desc'; {allowed} \(.*{reason}") as caught:
        parse_job_file(job_file(tmp_path / "x.desc", ', message = "shop.Order"'))
    assert "\n" not in str(caught.value)


def test_a_refusal_names_some_of_many_messages(tmp_path: Path) -> None:
    many = file("many.proto", *(message(f"M{number}", "int32 n = 1") for number in range(100)))
    (tmp_path / "many.desc").write_bytes(descriptor_set(many))
    with pytest.raises(InvalidJobFile, match=r": shop.M80, .*, shop.M99 and 82 more$"):
        parse_job_file(job_file(tmp_path / "many.desc", ', message = "shop.M"'))
