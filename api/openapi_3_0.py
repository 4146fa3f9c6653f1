"""Renders the API's description, which is OpenAPI 3.1, as 3.0.3: openapi_3_0.py IN OUT.

Text is replaced, and only in the parts of openapi.yaml that differ between the two versions: the
version, the summary of the API, types that may be null, and examples. A test refuses everything
else that 3.0.3 does not have.
"""
import re
import sys

LEFT = re.compile(r"'null'|\btype: \[|\b(?:const|examples):")


def rendered(text):
    text, versions = re.subn(r"\Aopenapi: 3\.1\.0$", "openapi: 3.0.3", text, flags=re.M)
    text, summaries = re.subn(r"^(info:\n(?:  .*\n)*?)  summary: .*\n", r"\1", text, flags=re.M)
    if (versions, summaries) != (1, 1):
        raise ValueError("no version 3.1.0 and summary at the head of openapi.yaml")
    text = re.sub(
        r"^( *)type: \[(\w+), 'null'\]$", r"\1type: \2\n\1nullable: true", text, flags=re.M
    )
    text = re.sub(r"\btype: \[(\w+), 'null'\]", r"type: \1, nullable: true", text)
    text = re.sub(r"\bexamples: \[([^],]+)[^]]*\]", r"example: \1", text)
    if left := LEFT.search(text):
        raise ValueError(f"openapi.yaml, rendered: 3.0.3 has no `{left[0]}`")
    return text


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as source:
        made = rendered(source.read())
    with open(sys.argv[2], "w", encoding="utf-8") as target:
        target.write(made)
