#!/usr/bin/python3
"""Both renderings of the API's description: what generators of clients and readers need of them.

Each check is seen to fail first, on a description that was spoilt. (Debian's Python runs this: it
has python3-yaml.)
"""
import copy
import pathlib
import re
import sys

import yaml

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "api"))
from openapi_3_0 import rendered

# The words of a schema in OpenAPI 3.0.3; 3.1 has more, and lists of types in place of `nullable`.
WORDS_3_0 = set(
    """
    title multipleOf maximum exclusiveMaximum minimum exclusiveMinimum maxLength minLength pattern
    maxItems minItems uniqueItems maxProperties minProperties required enum type allOf oneOf anyOf
    not items properties additionalProperties description format default nullable discriminator
    readOnly writeOnly xml externalDocs example deprecated $ref""".split()
)


def walk(node, path=""):
    """Each mapping of the description, with its position."""
    if isinstance(node, dict):
        yield path, node
    for name, child in node.items() if isinstance(node, dict) else enumerate(node):
        if isinstance(child, (dict, list)):
            yield from walk(child, f"{path}/{name}")


def is_schema(path):
    """Whether a mapping at `path` is a schema, not the list of properties in one, nor a value."""
    parts = path.split("/")[1:]
    if parts[:2] == ["components", "schemas"] and len(parts) > 2:
        parts = parts[3:]
    elif "schema" in parts:
        parts = parts[parts.index("schema") + 1 :]
    else:
        return False
    inside = iter(parts)
    for part in inside:
        if part in ("properties", "allOf", "oneOf", "anyOf"):
            if next(inside, None) is None:
                return False
        elif part not in ("items", "additionalProperties", "not"):
            return False
    return True


def schemas(document):
    return [(path, node) for path, node in walk(document) if is_schema(path)]


def found(document, reference):
    for name in reference.removeprefix("#/").split("/"):
        document = document.get(name) if isinstance(document, dict) else None
    return document is not None


def plain(name):
    """As a generator may write it: without its marks and its case."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def untyped(document):
    for path, schema in schemas(document):
        if not {"type", "$ref", "oneOf", "anyOf", "allOf"} & schema.keys():
            yield f"{path} has no type"
        kinds = {"string": str, "integer": int, "boolean": bool, "null": type(None)}
        types = schema.get("type", [])
        allowed = {kinds.get(word) for word in ([types] if isinstance(types, str) else types)}
        if schema.get("nullable"):
            allowed.add(type(None))
        for value in schema.get("enum", []):
            if type(value) not in allowed:
                yield f"{path}: {value!r} is not of its type"


def short_numbers(document):
    """A generator takes 32 bits if none are named; a fencing number has 51."""
    for path, schema in schemas(document):
        if re.search(r"(_ms|_?fencing_?token)(/schema)?$", path.lower().replace("-", "_")):
            if "integer" in schema.get("type", []) and schema.get("format") != "int64":
                yield f"{path} is not of int64"


def doubled(document):
    names = [name for kind in document["components"].values() for name in kind]
    ids = [node["operationId"] for _, node in walk(document["paths"]) if "operationId" in node]
    for what in (names, ids):
        seen = set()
        for name in what:
            if plain(name) in seen:
                yield f"two are named {name}"
            seen.add(plain(name))


def dangling(document):
    for path, node in walk(document):
        if "$ref" in node and not found(document, node["$ref"]):
            yield f"{path}: {node['$ref']} is not there"
        if "$ref" in node and len(node) > 1:
            yield f"{path}: beside a reference 3.0.3 ignores the rest"


def unused(document):
    text = str(document)
    for kind, members in document["components"].items():
        for name in members if kind != "securitySchemes" else []:
            if f"'#/components/{kind}/{name}'" not in text:
                yield f"nothing refers to {kind}/{name}"


def newer(document):
    if document["openapi"] != "3.0.3" or "summary" in document["info"]:
        yield "the head is not of 3.0.3"
    for path, schema in schemas(document):
        if words := schema.keys() - WORDS_3_0:
            yield f"{path}: 3.0.3 has no {words}"
        if not isinstance(schema.get("type", ""), str):
            yield f"{path}: 3.0.3 has one type"


def as_3_0(node):
    """That of 3.1 as it must come out, by its structure; the renderer takes text."""
    if isinstance(node, list):
        return [as_3_0(each) for each in node]
    if not isinstance(node, dict):
        return node
    node = {name: as_3_0(child) for name, child in node.items()}
    if isinstance(node.get("type"), list):
        assert node["type"][1:] == ["null"]
        node.update(type=node["type"][0], nullable=True)
    if isinstance(node.get("examples"), list):
        node["example"] = node.pop("examples")[0]
    return node


def expected(document):
    document = as_3_0(document)
    del document["info"]["summary"]
    return document | {"openapi": "3.0.3"}


BOTH = (untyped, short_numbers, doubled, dangling, unused)


def spoilt(document):
    """Each check with a description that it must refuse."""

    def one(check, change):
        copied = copy.deepcopy(document)
        change(copied, copied["components"])
        return check, copied

    yield one(untyped, lambda _, parts: parts["schemas"]["Mode"].pop("type"))
    yield one(untyped, lambda _, parts: parts["schemas"]["Mode"]["enum"].append(True))
    yield one(
        short_numbers, lambda _, parts: parts["headers"]["Fencing-Token"]["schema"].pop("format")
    )
    yield one(
        short_numbers,
        lambda _, parts: parts["schemas"]["Hold"]["properties"]["ttl_ms"].pop("format"),
    )
    yield one(doubled, lambda _, parts: parts["parameters"].update(mode={}))
    yield one(
        doubled, lambda whole, _: whole["paths"]["/metrics"]["get"].update(operationId="health")
    )
    yield one(dangling, lambda _, parts: parts["schemas"].pop("Token"))
    yield one(
        dangling, lambda _, parts: parts["parameters"]["ModeQuery"]["schema"].update(default="read")
    )
    yield one(unused, lambda _, parts: parts["schemas"].update(Spare={"type": "string"}))
    yield one(newer, lambda whole, _: whole.update(openapi="3.1.0"))
    yield one(newer, lambda _, parts: parts["schemas"]["Mode"].update(const="read"))
    yield one(newer, lambda _, parts: parts["schemas"]["Mode"].update(type=["string", "null"]))


def main():
    text = (TOP / "api/openapi.yaml").read_text(encoding="utf-8")
    readers, generators = yaml.safe_load(text), yaml.safe_load(rendered(text))
    failed = [f"3.1: {why}" for check in BOTH for why in check(readers)]
    failed += [f"3.0.3: {why}" for check in (*BOTH, newer) for why in check(generators)]
    if generators != expected(readers):
        failed.append("3.0.3 says something else than 3.1")
    checks = list(spoilt(generators))
    for check, document in checks:
        if not list(check(document)):
            failed.append(f"`{check.__name__}` lets a spoilt description pass")
    for why in failed:
        print(f"FAILED {why}")
    total = 2 * len(BOTH) + 2 + len(checks)
    print(f"{total - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
