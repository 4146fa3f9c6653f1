"""Turns a text file into a C header that holds its bytes: embed.py IN OUT NAME."""
import sys

source, target, name = sys.argv[1:]
with open(source, "rb") as file:
    content = file.read()
with open(target, "w", encoding="ascii") as file:
    file.write(f"/* Made by the build. */\nstatic const char {name}[] = {{\n")
    for at in range(0, len(content), 20):
        file.write(
            " ".join(f"{byte if byte < 128 else byte - 256}," for byte in content[at : at + 20])
            + "\n"
        )
    file.write("};\n")
