#!/usr/bin/env python3
"""Lists an image's packages as SPDX 2.3: sbom.py DPKG_FOLDER OUT AGENT MICROHTTPD [PACKAGES].

DPKG_FOLDER is the image's /var/lib/dpkg, AGENT and MICROHTTPD are the versions of the programs
that were built for it. PACKAGES is a file with the names of the image's Debian packages, if the
image has fewer than DPKG_FOLDER lists. SOURCE_DATE_EPOCH is the date of the list, otherwise it is
now. The same packages and date make the same bytes.
"""
import datetime
import json
import os
import subprocess
import sys
import time
import uuid

FIELDS = ("Package", "Version", "Architecture", "source:Package", "source:Version")


def installed(folder, names):
    """Of Debian's packages, as dpkg lists them."""
    form = "\t".join(f"${{{field}}}" for field in FIELDS) + "\n"
    command = ["dpkg-query", f"--admindir={folder}", "-W", f"-f={form}", *names]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [line.split("\t") for line in listed.splitlines()]


def package(name, version, licence="NOASSERTION", **more):
    return {
        "SPDXID": f"SPDXRef-Package-{name.replace('+', '-')}",
        "name": name,
        "versionInfo": version,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": licence,
        "copyrightText": "NOASSERTION",
        **more,
    }


def debian(name, version, architecture, source, source_version):
    quoted = version.replace("+", "%2B")
    locator = f"pkg:deb/debian/{name}@{quoted}?arch={architecture}"
    return package(
        name,
        version,
        supplier="Organization: Debian",
        sourceInfo=f"built from the source package {source} {source_version}",
        externalRefs=[
            {
                "referenceCategory": "PACKAGE-MANAGER",
                "referenceType": "purl",
                "referenceLocator": locator,
            }
        ],
    )


def document(packages):
    epoch = os.environ.get("SOURCE_DATE_EPOCH") or time.time()
    made = datetime.datetime.fromtimestamp(float(epoch), datetime.timezone.utc)
    name = uuid.uuid5(uuid.NAMESPACE_OID, json.dumps([made.isoformat(), packages]))
    return {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"lockagent-{packages[0]['versionInfo']}-image",
        "documentNamespace": f"urn:uuid:{name}",
        "creationInfo": {
            "created": made.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "creators": ["Tool: lockagent-sbom"],
        },
        "packages": packages,
        "relationships": [
            {
                "spdxElementId": "SPDXRef-DOCUMENT",
                "relationshipType": "DESCRIBES",
                "relatedSpdxElement": each["SPDXID"],
            }
            for each in packages
        ],
    }


def main():
    folder, out, agent, microhttpd, *names = sys.argv[1:]
    if names:
        with open(names[0], encoding="utf-8") as file:
            names = file.read().split()
    built = package(
        "libmicrohttpd12t64",
        microhttpd,
        sourceInfo=f"built here from Debian's source package libmicrohttpd {microhttpd}",
        comment="without HTTPS",
    )
    packages = [package("lockagent", agent, licence="Apache-2.0"), built]
    packages += [debian(*fields) for fields in installed(folder, names)]
    made = document(packages)
    os.makedirs(os.path.dirname(out), exist_ok=True)
    with open(out, "w", encoding="utf-8") as file:
        json.dump(made, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
