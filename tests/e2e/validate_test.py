# SPDX-License-Identifier: Apache-2.0
"""weft validate: every rule of docs/format.md section 19 with a document that breaks it and the same document whole; the
statements of section 24 that are about reading; the verdicts stated for the packages beside the checkout; the JSON Schema."""
import json
import os
import re
import time

import pytest

import make_packages
from validate_rules import RULES, change

PACKAGES = ("decoder", "scatter", "straight", "wave", "grammar", "image", "lora", "speculative")
STATUS = {"E_PARSE": 9, "E_VERSION": 10, "E_CAPABILITY": 10}


def problems(weft, path, *args):
    r = weft("validate", path, "--json", *args)
    report = json.loads(r.stdout)
    assert report["valid"] == (r.returncode == 0)
    return r.returncode, report["problems"]


@pytest.mark.parametrize("name", PACKAGES)
def test_the_whole_package_is_valid(weft, tmp_path, name):
    code, found = problems(weft, make_packages.write(tmp_path / "p", getattr(make_packages, name)()), "--strict")
    assert (code, found) == (0, [])


@pytest.mark.parametrize("index", range(len(RULES)), ids=[f"{r[0] or 'shape'}-{i}" for i, r in enumerate(RULES)])
def test_a_broken_rule_is_told_with_its_class_place_and_fix(weft, tmp_path, index):
    rule, cls, of, path, value = RULES[index]
    document = json.loads(json.dumps(getattr(make_packages, of)()))
    change(document, path, value)
    code, found = problems(weft, make_packages.write(tmp_path / "p", document))
    mine = [p for p in found if p["rule"] == rule and p["class"] == cls]
    assert code == STATUS.get(found[0]["class"], 3)
    assert mine, [(p["rule"], p["class"], p["path"], p["what"]) for p in found]
    assert all(p["line"] > 0 and p["column"] > 0 and p["what"] and p["fix"] for p in mine)


def test_every_rule_of_the_format_has_a_broken_document():
    text = (make_packages.__file__.rsplit("/tests/", 1)[0]) + "/docs/format.md"
    table = open(text, encoding="utf-8").read().split("## 19.")[1].split("## 20.")[0]
    wanted = set()
    for line in table.splitlines():
        m = re.match(r"\| ([A-Z]+)-([0-9/…A-Z-]+) \|", line)
        if not m:
            continue
        family, numbers = m.groups()
        for part in re.findall(r"\d+(?:…(?:[A-Z]+-)?\d+)?", numbers.replace(family + "-", "")):
            ends = [int(x) for x in part.split("…")]
            wanted |= {f"{family}-{n:02d}" for n in range(ends[0], ends[-1] + 1)}
    elsewhere = {"DOC-05", "IN-10", "GRP-13", "ADM-01", "ADM-02", "ADM-03"}  # below, or of requests
    missing = wanted - {r[0] for r in RULES} - elsewhere
    assert not missing, sorted(missing)


# ---- admission


def test_statement_40_declared_ports_unlike_the_graph_are_ADM_01(weft, tmp_path):
    x, other = make_packages.tensor("float32", "batch", 2), make_packages.tensor("float32", "batch", 3)
    for i, port in enumerate((other, make_packages.tensor("int64", "batch", 2), make_packages.tensor("float32", "batch"))):
        folder = make_packages.write(tmp_path / str(i), make_packages.straight(), graphs={"f": {"inputs": {"x": port}, "outputs": {"y": x}}})
        assert {(p["rule"], p["class"]) for p in problems(weft, folder)[1]} == {("ADM-01", "E_ADMISSION")}


def test_statement_39_inferred_ports_allow_an_invoke_and_an_absent_port_is_ADM_02(weft, tmp_path):
    x = make_packages.tensor("float32", "batch", 2)
    ports = {"f": {"inputs": {"x": x}, "outputs": {"y": x}}}
    document = make_packages.straight()
    del document["pipeline"]["workflow"]["components"]["f"]["ports"]
    assert problems(weft, make_packages.write(tmp_path / "whole", document, graphs=ports)) == (0, [])
    document["pipeline"]["workflow"]["steps"][0]["inputs"]["z"] = "x"
    assert {p["rule"] for p in problems(weft, make_packages.write(tmp_path / "z", document, graphs=ports))[1]} == {"ADM-02"}


def test_inferred_ports_are_typed_by_their_graph(weft, tmp_path):
    document = make_packages.straight()
    del document["pipeline"]["workflow"]["components"]["f"]["ports"]
    ports = {"inputs": {"x": make_packages.tensor("int64", "batch", 2)}, "outputs": {"y": make_packages.tensor("float32", "batch", 5)}}
    found = problems(weft, make_packages.write(tmp_path / "p", document, graphs={"f": ports}))[1]
    assert {p["rule"] for p in found} == {"CTR-01", "EMIT-02"}


def test_statement_41_an_input_with_an_initializer_may_stay_unbound(weft, tmp_path):
    x = make_packages.tensor("float32", "batch", 2)
    one = {"dtype": "float32", "rank": 1, "shape": [1]}
    document = make_packages.straight()
    del document["pipeline"]["workflow"]["components"]["f"]["ports"]
    for name, rules in (("w", set()), ("v", {"ADM-02"})):
        folder = make_packages.write(tmp_path / name, document, graphs={"f": {"inputs": {"x": x, name: one}, "outputs": {"y": x}}})
        assert {p["rule"] for p in problems(weft, folder)[1]} == rules


def test_a_replacement_of_another_signature_is_ADM_03(weft, tmp_path):
    document = make_packages.decoder()
    c = document["pipeline"]["workflow"]["components"]
    c["other"] = json.loads(json.dumps(c["sampler"]))
    assert problems(weft, make_packages.write(tmp_path / "same", document)) == (0, [])
    c["other"]["ports"]["outputs"]["token"] = make_packages.tensor("int64", "batch", 7)
    assert {p["rule"] for p in problems(weft, make_packages.write(tmp_path / "p", document))[1]} == {"ADM-03"}


def test_a_sole_decoder_says_where_its_sequence_enters_GRP_13(weft, tmp_path):
    document = make_packages.decoder()
    w = document["pipeline"]["workflow"]
    for name, component in w["components"].items():
        if name != "model":
            component["implementation"] = {"kind": "adapter", "abi": "onnx-genai.telemetry", "version": "1"}
            component.pop("contract", None)
            component.pop("application_overridable", None)
    w["manifest"]["adapter_abis"] = {"onnx-genai.telemetry": "1"}
    w["manifest"]["capabilities"].append("telemetry_adapter")
    assert {p["rule"] for p in problems(weft, make_packages.write(tmp_path / "p", document))[1]} == {"GRP-13"}
    w["components"]["model"]["ports"]["roles"] = {"ids": "token_ids"}
    assert problems(weft, make_packages.write(tmp_path / "whole", document)) == (0, [])


# ---- statements about parsing


def test_statement_1_yaml_wins_over_yml_and_json(weft, tmp_path):
    folder = make_packages.write(tmp_path / "p", make_packages.straight())
    assert json.loads(weft("validate", folder, "--json").stdout)["document"].endswith(".json")
    for name in ("inference_metadata.yml", "inference_metadata.yaml"):
        (folder / name).write_text((folder / "inference_metadata.json").read_text())
        assert json.loads(weft("validate", folder, "--json", check=0).stdout)["document"].endswith(name)


def test_statement_2_a_malformed_document_is_E_PARSE_never_absent(weft, tmp_path):
    folder = make_packages.write(tmp_path / "p", make_packages.straight())
    for text in ("a: [1", "", "\x00", "a: 1\n--- \nb: 2\n", "\t- a", b"\xff\xfe\xff".decode("latin1"), "a: *b", "? [a]\n: 1", "a: !tag 1"):
        (folder / "inference_metadata.yaml").write_bytes(text.encode("latin1"))
        code, found = problems(weft, folder)
        assert code == 9 and {p["class"] for p in found} == {"E_PARSE"}, text


def test_statement_7_unknown_members_are_E_SCHEMA_naming_the_path(weft, tmp_path):
    for i, path in enumerate(("", "pipeline.workflow.components.f.", "pipeline.workflow.steps.0.")):
        document = make_packages.straight()
        change(document, path + "surprise", 1)
        found = problems(weft, make_packages.write(tmp_path / str(i), document))[1]
        assert [(p["class"], p["path"]) for p in found] == [("E_SCHEMA", (path + "surprise").replace("steps.0", "steps[0]"))]


def test_statement_8_an_unknown_preprocessing_member_warns_and_fails_when_strict(weft, tmp_path):
    document = make_packages.image()
    document["preprocessing"]["image"]["transforms"][1]["sizee"] = 8
    folder = make_packages.write(tmp_path / "p", document)
    code, found = problems(weft, folder)
    assert (code, [p["class"] for p in found]) == (0, ["W_UNKNOWN_FIELD"])
    assert problems(weft, folder, "--strict")[0] == 3


REMOVED = [("decoder", "pipeline.workflow.serving.slot_ids", "x"), ("decoder", "pipeline.workflow.serving.kv_service", {}),
           ("straight", "pipeline.workflow.steps.1.row_ids", "x"), ("lora", "adapters.selection.slot_ids", "x"), ("lora", "adapters.selection.request_epochs", "x"),
           ("decoder", "pipeline.workflow.serving.state_service.groups.kv.paging", {}), ("decoder", "pipeline.workflow.serving.state_service.groups.kv.storage", {}),
           ("decoder", "pipeline.workflow.serving.state_service.groups.kv.slot_allocation", {}),
           ("decoder", "pipeline.workflow.serving.state_service.groups.kv.shared_buffer", True), ("straight", "kv_cache", {}),
           ("straight", "model", {"runtime_configurable": {"kv_cache": {}}}), ("decoder", "pipeline.workflow.steps.2.condition", "go"),
           ("straight", "pipeline.workflow.ir_version", 1), ("straight", "pipeline.workflow.components.f.location", "x"),
           ("straight", "pipeline.workflow.steps.1.kind", "transfer")]


@pytest.mark.parametrize("of, path, value", REMOVED, ids=[r[1].rsplit(".", 1)[-1] for r in REMOVED])
def test_statement_9_a_removed_member_is_named_with_its_replacement(weft, tmp_path, of, path, value):
    document = getattr(make_packages, of)()
    change(document, path, value)
    found = problems(weft, make_packages.write(tmp_path / "p", document))[1]
    assert found[0]["class"] == "E_SCHEMA" and any("no longer" in p["what"] and p["fix"] for p in found)


def test_statement_10_duplicate_keys_are_E_PARSE(weft, tmp_path):
    folder = make_packages.write(tmp_path / "p", make_packages.straight())
    whole = (folder / "inference_metadata.json").read_text()
    (folder / "inference_metadata.json").write_text(whole.replace('"schema_version"', '"schema_version": "v1", "schema_version"', 1))
    assert [p["class"] for p in problems(weft, folder)[1]] == ["E_PARSE"]
    (folder / "inference_metadata.yaml").write_text("a: 1\n'a': 2\n")
    assert [(p["class"], p["line"]) for p in problems(weft, folder)[1]] == [("E_PARSE", 2)]


def test_statement_11_a_case_key_may_be_quoted_or_plain(weft, tmp_path):
    folder = make_packages.write(tmp_path / "p", make_packages.decoder())
    text = (folder / "inference_metadata.json").read_text()
    (folder / "inference_metadata.yaml").write_text(text.replace('"true":', "true:"))
    assert problems(weft, folder) == (0, [])


def test_statement_12_versions(weft, tmp_path):
    for i, (version, code) in enumerate(((None, 0), ("v1", 0), ("1.0", 0), ("1", 0), ("v2", 10))):
        document = make_packages.straight()
        document["schema_version"] = version
        assert problems(weft, make_packages.write(tmp_path / str(i), document))[0] == code


def test_statement_16_extent_0_is_accepted(weft, tmp_path):
    document = make_packages.straight()
    for c in ("inputs.x.contract", "outputs.y.contract", "components.f.ports.inputs.x", "components.f.ports.outputs.y"):
        change(document, f"pipeline.workflow.{c}.shape", ["batch", 0])
    assert problems(weft, make_packages.write(tmp_path / "p", document)) == (0, [])


def test_statement_17_fp16_and_float16_are_one_type(weft, tmp_path):
    document = json.loads(json.dumps(make_packages.straight()))
    document["pipeline"]["workflow"]["outputs"]["y"]["contract"]["dtype"] = "fp32"
    assert problems(weft, make_packages.write(tmp_path / "p", document)) == (0, [])


def test_statement_90_an_unknown_ignorable_profile_loads(weft, tmp_path):
    document = make_packages.decoder()
    document["profiles"]["other"] = {"kind": "telepathy", "version": "1", "requirement": "ignorable", "outputs": {"x": "nowhere"}}
    assert problems(weft, make_packages.write(tmp_path / "p", document)) == (0, [])


def test_statement_4_links_out_of_the_package_are_E_ARTIFACT(weft, tmp_path):
    folder = make_packages.write(tmp_path / "p", make_packages.straight())
    os.rename(folder / "f.onnx", tmp_path / "f.onnx")
    (folder / "f.onnx").symlink_to(tmp_path / "f.onnx")
    assert [(p["class"], p["rule"]) for p in problems(weft, folder)[1]] == [("E_ARTIFACT", "ART-01")]
    assert problems(weft, folder, "--trust-links") == (0, [])


# ---- bad and large input


BOMBS = {
    "deep flow": "[" * 100000, "deep blocks": "\n".join("  " * i + "a:" for i in range(200)), "deep map": "{a: " * 5000,
    "aliases": "a0: &a0 [x]\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i-1}'] * 10)}]\n" for i in range(1, 12)),
    "own alias": "a: &a [*a]", "anchors": "".join(f"- &a{i} x\n" for i in range(10000)), "many": "- x\n" * 1100000,
}


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_are_refused_in_bounded_time(weft, tmp_path, name):
    (tmp_path / "inference_metadata.yaml").write_text(BOMBS[name])
    start = time.monotonic()
    assert problems(weft, tmp_path)[0] == 9
    assert time.monotonic() - start < 20


def test_all_problems_are_told_and_their_number_is_bounded(weft, tmp_path):
    document = make_packages.straight()
    for i in range(3000):
        document[f"x{i}"] = 1
    report = json.loads(weft("validate", make_packages.write(tmp_path / "p", document), "--json").stdout)
    assert report["errors"] == 3000 and len(report["problems"]) == 1000


# ---- beside the checkout

REFUSED = {"policy-greedy-invalid-port": {"CMP-10"}, "tiny-llm-scatter-workflow": {"ADM-01"}}


def test_fixture_packages_have_the_stated_verdicts(weft, fixtures):
    n = 0
    for folder in sorted((fixtures / "packages").iterdir()):
        names = [f for f in ("inference_metadata.onnx.yaml", "inference_metadata.yaml") if (folder / f).exists()]
        if not names:
            continue
        for name in names:  # binary graphs and those in protobuf's text form
            n += 1
            code, found = problems(weft, folder / name)
            if folder.name in REFUSED:
                assert code == 3 and REFUSED[folder.name] <= {p["rule"] for p in found}, folder.name
            else:
                assert code == 0, (folder.name, name, found)
    assert n > 40


def test_catalogue_documents_are_valid_up_to_their_artifacts(weft, fixtures):
    for path in sorted((fixtures / "metadata" / "catalogue").glob("*.yaml")):
        found = problems(weft, path)[1]
        assert found and {p["rule"] for p in found} <= {"ART-01", "ADM-05"}, (path.name, found)


def test_validator_documents_have_the_stated_verdicts(weft, fixtures):
    where = fixtures / "metadata" / "validator"
    assert problems(weft, where / "north_star_minimal.yaml") == (0, [])
    assert problems(weft, where / "validator_package" / "inference_metadata.onnx.yaml") == (0, [])
    assert {p["rule"] for p in problems(weft, where / "validator_missing_artifact")[1]} == {"ART-01"}
    for name in ("composite_top_level_io_invalid", "pipeline_cycle", "pipeline_dangling", "pipeline_valid", "vlm_packed_valid"):
        assert "E_SCHEMA" in {p["class"] for p in problems(weft, where / f"{name}.yaml")[1]}


# ---- the JSON Schema for editors


def fits(schema, root, value):
    """Whether a value fits a JSON Schema, by the words that such schemas use; any other word fails the test."""
    words = {"$schema", "$id", "deprecated", "examples", "title", "description", "$defs", "$ref", "type", "enum", "const", "properties", "required", "additionalProperties", "items",
             "anyOf", "oneOf", "allOf", "minimum", "maximum", "minItems", "minLength", "default", "format", "uniqueItems", "exclusiveMinimum",
             "minProperties", "if", "then", "else", "not"}
    if isinstance(schema, bool):
        return schema
    assert set(schema) <= words, set(schema) - words
    if "$ref" in schema and not fits(root["$defs"][schema["$ref"].rsplit("/", 1)[1]], root, value):
        return False
    kinds = {"object": dict, "array": list, "string": str, "boolean": bool, "number": (int, float), "integer": int, "null": type(None)}
    if "type" in schema:
        types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        if not any(isinstance(value, kinds[t]) and (t == "boolean" or not isinstance(value, bool)) for t in types):
            return False
    if ("enum" in schema and value not in schema["enum"]) or ("const" in schema and value != schema["const"]):
        return False
    if isinstance(value, dict):
        known = schema.get("properties", {})
        if any(k not in value for k in schema.get("required", [])) or len(value) < schema.get("minProperties", 0):
            return False
        for k, v in value.items():
            if not fits(known.get(k, schema.get("additionalProperties", True)), root, v):
                return False
    if isinstance(value, list) and (len(value) < schema.get("minItems", 0) or not all(fits(schema.get("items", True), root, v) for v in value)):
        return False
    if isinstance(value, list) and schema.get("uniqueItems") and len({json.dumps(v) for v in value}) < len(value):
        return False
    if isinstance(value, str) and len(value) < schema.get("minLength", 0):
        return False
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if value < schema.get("minimum", value) or value > schema.get("maximum", value) or not value > schema.get("exclusiveMinimum", value - 1):
            return False
    if "anyOf" in schema and not any(fits(s, root, value) for s in schema["anyOf"]):
        return False
    if "oneOf" in schema and sum(fits(s, root, value) for s in schema["oneOf"]) != 1:
        return False
    if "if" in schema and not fits(schema.get("then" if fits(schema["if"], root, value) else "else", True), root, value):
        return False
    return all(fits(s, root, value) for s in schema.get("allOf", [])) and not ("not" in schema and fits(schema["not"], root, value))


@pytest.fixture(scope="module")
def schema():
    with open(make_packages.__file__.rsplit("/tests/", 1)[0] + "/docs/schema/inference_metadata.schema.json", encoding="utf-8") as f:
        return json.load(f)


def with_artifacts(document):
    document = json.loads(json.dumps(document))
    for component in document["pipeline"]["workflow"]["components"].values():
        if component["implementation"]["kind"] == "onnx":
            component["implementation"].setdefault("artifact", "x.onnx")
    return document


@pytest.mark.parametrize("name", PACKAGES)
def test_the_schema_takes_the_whole_packages(schema, name):
    assert fits(schema, schema, with_artifacts(getattr(make_packages, name)()))


def test_the_schema_refuses_what_the_reader_refuses_as_shape(weft, schema):
    for path, value in (("surprise", 1), ("pipeline.workflow.components.f.surprise", 1), ("pipeline.workflow.steps.0.surprise", 1),
                        ("pipeline.workflow.steps.0.kind", "transfer"), ("pipeline.workflow.inputs.x.contract.shape", ["batch", -1]),
                        ("pipeline.workflow.inputs.x.contract.shape", ["batch", ""]), ("pipeline.workflow.inputs.x.role", {"kind": "runtime"}),
                        ("pipeline.workflow.outputs.y.role", "picture"), ("pipeline.workflow.inputs.x.contract.rank", "2"),
                        ("pipeline.workflow.steps.1.continue_when", "x"), ("pipeline.workflow.manifest", [])):
        document = with_artifacts(make_packages.straight())
        change(document, path, value)
        assert not fits(schema, schema, document), path


def test_the_schema_and_that_of_the_format_give_one_verdict(schema, fixtures):
    yaml = pytest.importorskip("yaml")
    theirs = json.loads((fixtures / "metadata" / "inference_metadata.schema.json").read_text())
    paths = sorted((fixtures / "metadata").glob("*/*.yaml")) + sorted((fixtures / "packages").glob("*/inference_metadata.yaml"))
    assert len(paths) > 40
    for path in paths:
        document = yaml.safe_load(path.read_text())
        assert fits(schema, schema, document) == fits(theirs, theirs, document), (path, fits(theirs, theirs, document))


def test_more_of_a_kind_than_rules_can_compare_is_refused_in_bounded_time(weft, tmp_path):
    document = json.loads(json.dumps(make_packages.straight()))
    w = document["pipeline"]["workflow"]
    w["components"].update({f"c{i}": {"implementation": {"kind": "binding"}} for i in range(50000)})
    start = time.monotonic()
    code, found = problems(weft, make_packages.write(tmp_path / "p", document))
    assert (code, [p["class"] for p in found]) == (10, ["E_CAPABILITY"]) and time.monotonic() - start < 20
