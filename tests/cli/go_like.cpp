// A program with the note that Go's linker leaves: enough for everything that looks at files.

__asm__(
    ".pushsection .note.go.buildid,\"a\",%note\n"
    ".balign 4\n"
    ".long 4, 4, 4\n"
    ".asciz \"Go\\0\"\n"
    ".long 0x12345678\n"
    ".popsection\n");

int main() {
  return 0;
}
